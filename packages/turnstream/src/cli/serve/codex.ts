import { statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { BASE_URL } from '@turnstream/core/internal/formats/responses/request-out'
import { withoutUndefined } from '@turnstream/core/internal/protocol/json'
import * as z from 'zod'
import {
  APPROVALS,
  type CodexAgent,
  hasNeedlessApprovals,
  NEEDLESS_APPROVALS,
  SANDBOXES,
} from '../../codex/agent.ts'
import { createOwnedDirectory, listOrphans, removeDirectory } from '../../codex/owned-directory.ts'
import {
  type CodexProvider,
  type CodexProviderOptions,
  createCodexProvider,
} from '../../codex/provider.ts'
import type { ProcessHealth, Provider } from '../../providers/provider.ts'
import type { ConfiguredProvider } from '../../turns/providers.ts'
import { UsageError } from '../command.ts'
import { type Environment, readSecret } from './secrets.ts'
import {
  baseUrlSchema,
  decodePart,
  durationSchema,
  nameSchema,
  variableSchema,
} from './settings.ts'
import type { StoreChoice } from './store.ts'

/** The model of the agent: `agent` for its first one, or `agent/<model>`. */
const AGENT = 'agent'

const isAgentName = (model: string): boolean => model === AGENT || model.startsWith(`${AGENT}/`)

const models = z.array(nameSchema).min(1, 'must be a list of at least one model')

const agentSchema = z.strictObject({
  /** Where the agent works; relative to the file. */
  directory: nameSchema,
  sandbox: z.enum(SANDBOXES, oneOf(SANDBOXES)),
  approvals: z.enum(APPROVALS, oneOf(APPROVALS)).default('never'),
  /** Those of `codex` by default. */
  models: models.exactOptional(),
  maxOutputChars: z.int('must be an integer').min(1000).max(1_000_000).exactOptional(),
})

const codexSchema = z.strictObject({
  /** The codex binary; found by itself where it is installed. */
  binary: nameSchema.exactOptional(),
  /** A directory whose files its home starts with. */
  homeTemplate: nameSchema.exactOptional(),
  /** Uses the login in `auth.json` of its home instead of a key. */
  login: z.literal('chatgpt', "must be 'chatgpt'").exactOptional(),
  /** The Responses API that codex calls; OpenAI's by default. */
  baseUrl: baseUrlSchema.exactOptional(),
  /** Environment variable with the key of that API; null if it needs none. */
  keyVariable: variableSchema.nullable().default('OPENAI_API_KEY'),
  models: models
    .refine((names) => !names.some(isAgentName), { error: `must not contain ${AGENT}` })
    .default(['gpt-5.5']),
  idleTimeout: durationSchema.exactOptional(),
  turnTimeout: durationSchema.exactOptional(),
  quietPeriod: durationSchema.exactOptional(),
  maxThreads: z.int('must be an integer').min(1).exactOptional(),
  maxMemoryBytes: z.int('must be an integer').min(1).exactOptional(),
  /** Codex with its own tools, as `codex/agent`. Off without this key. */
  agent: agentSchema.exactOptional(),
})

function oneOf(names: readonly string[]): string {
  return `must be ${names.slice(0, -1).join(', ')} or ${names.at(-1)}`
}

export type CodexSetting = z.infer<typeof codexSchema>

/** Relative paths are resolved from `folder`. */
export function decodeCodexSetting(value: unknown, file: string, folder: string): CodexSetting {
  const { agent, ...others } = decodePart(codexSchema, value, { path: 'codex', file })
  const { homeTemplate: template } = others
  const rest = { ...others, ...(template && { homeTemplate: resolve(folder, template) }) }
  if (agent === undefined) return rest
  if (rest.login !== undefined) {
    throw new UsageError(`codex.login of ${file}: commands of the agent could read it; use a key`)
  }
  const { sandbox, approvals } = agent
  if (hasNeedlessApprovals(sandbox, approvals)) {
    throw new UsageError(`codex.agent.approvals of ${file}: ${NEEDLESS_APPROVALS}`)
  }
  const directory = resolve(folder, agent.directory)
  if (!statSync(directory, { throwIfNoEntry: false })?.isDirectory()) {
    throw new UsageError(`codex.agent.directory of ${file}: ${directory} is not a directory`)
  }
  return { ...rest, agent: { ...agent, directory } }
}

interface CodexDeps {
  readonly env: Environment
  readonly store: StoreChoice
  readonly onLog?: ((line: string) => void) | undefined
}

/** Runs codex as a model server and, if configured, as an agent, in two processes that start with their first turn. */
export function configuredCodex(setting: CodexSetting, deps: CodexDeps): ConfiguredProvider {
  const { agent, models } = setting
  const [defaultModel = ''] = models
  const chat = startable(setting, deps, { name: 'codex', models })
  if (agent === undefined) return { provider: chat, models, defaultModel }
  const run = agent.models ?? models
  const worker = startable(setting, deps, { name: 'codex-agent', models: run, agent })
  const choose = ({ model }: { readonly model: string }) => (isAgentName(model) ? worker : chat)
  const provider: Required<Provider> = {
    id: chat.id,
    get health() {
      return combinedHealth(chat.health, worker.health)
    },
    maxArgumentChars: chat.maxArgumentChars,
    fit: (settings) => choose(settings).fit(settings),
    stream(request, context, signal) {
      if (!isAgentName(request.model)) return chat.stream(request, context, signal)
      const model = request.model.slice(AGENT.length + 1) || (run[0] ?? '')
      return worker.stream({ ...request, model }, context, signal)
    },
    stop: async () => {
      await Promise.all([chat.stop(), worker.stop()])
    },
  }
  const agents = run.length > 1 ? run.map((model) => `${AGENT}/${model}`) : []
  return { provider, models: [...models, AGENT, ...agents], defaultModel }
}

interface Role {
  /** Of its home, in the directory of the store. */
  readonly name: string
  readonly models: readonly string[]
  readonly agent?: CodexAgent
}

/** Counts both processes. The gateway is ready if the plain models are: the agent may be missing its directory. */
function combinedHealth(chat: ProcessHealth, agent: ProcessHealth): ProcessHealth {
  const isOnlyAgent = chat.state === 'idle' && agent.state === 'running'
  const { residentBytes: chatBytes = 0 } = chat
  const { residentBytes: agentBytes = 0 } = agent
  const isMeasured = 'residentBytes' in chat || 'residentBytes' in agent
  return {
    ...agent,
    ...chat,
    state: isOnlyAgent ? 'running' : chat.state,
    threads: chat.threads + agent.threads,
    turns: chat.turns + agent.turns,
    restarts: chat.restarts + agent.restarts,
    recycles: chat.recycles + agent.recycles,
    ...(isMeasured && { residentBytes: chatBytes + agentBytes }),
  }
}

function startable(setting: CodexSetting, deps: CodexDeps, role: Role): CodexProvider {
  const { binary, homeTemplate, maxThreads } = setting
  const home = codexHome(deps.store, role.name)
  const codex = createCodexProvider({
    home: () => home.directory,
    models: role.models,
    ...codexAccess(setting, deps),
    ...withoutUndefined({
      binary,
      homeTemplate,
      maxThreads,
      agent: role.agent,
      onLog: deps.onLog,
      idleTimeoutMs: setting.idleTimeout,
      maxTurnMs: setting.turnTimeout,
      quietPeriodMs: setting.quietPeriod,
      maxResidentBytes: setting.maxMemoryBytes,
    }),
  })
  const { stop } = codex
  return Object.assign(codex, { stop: () => stop().finally(() => home.remove()) })
}

/** The API that codex calls, and the environment with its key. */
function codexAccess(
  { baseUrl, keyVariable, login }: CodexSetting,
  { env }: CodexDeps,
): Pick<CodexProviderOptions, 'modelProvider' | 'env'> {
  if (login !== undefined) return { modelProvider: { baseUrl, usesLogin: true }, env }
  const modelProvider = { baseUrl: baseUrl ?? BASE_URL }
  if (keyVariable === null) return { modelProvider, env }
  const key = readSecret(env, keyVariable)
  return { modelProvider: { ...modelProvider, keyVariable }, env: { ...env, [keyVariable]: key } }
}

/** In the directory of an embedded store; with other stores a private one that is removed, after a crash by the next. */
function codexHome(store: StoreChoice, name: string) {
  if (store.kind === 'embedded') return { directory: join(store.directory, name), remove() {} }
  let made: string | undefined
  const prefix = `turnstream-${name}-`
  return {
    get directory() {
      if (made !== undefined) return made
      for (const orphan of listOrphans(tmpdir(), prefix)) removeDirectory(orphan)
      made = createOwnedDirectory(tmpdir(), prefix)
      return made
    },
    remove() {
      if (made !== undefined) removeDirectory(made)
    },
  }
}
