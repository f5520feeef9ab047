import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as z from 'zod'
import { BASE_URL } from '../../adapters/openai-responses/adapter.ts'
import type { Provider } from '../../adapters/provider.ts'
import { BASE_URL_TAKES, isBaseUrl } from '../../adapters/vendor-request.ts'
import { type CodexProviderOptions, createCodexProvider } from '../../codex/provider.ts'
import type { ConfiguredProvider } from '../../turns/providers.ts'
import { UsageError } from '../command.ts'
import type { Environment } from './configuration.ts'
import { durationSchema } from './settings.ts'
import type { StoreChoice } from './store.ts'

const name = z.string().trim().min(1, 'must be a name')

const codexSchema = z.strictObject({
  /** The codex binary; found by itself where it is installed. */
  binary: name.exactOptional(),
  /** A directory whose files its home starts with. */
  homeTemplate: name.exactOptional(),
  /** Uses the login in `auth.json` of its home instead of a key. */
  login: z.literal('chatgpt', "must be 'chatgpt'").exactOptional(),
  /** The Responses API that codex calls; OpenAI's by default. */
  baseUrl: z
    .string()
    .refine(isBaseUrl, { error: `must be ${BASE_URL_TAKES}` })
    .exactOptional(),
  /** Environment variable with the key of that API; null if it needs none. */
  keyVariable: z
    .string()
    .regex(/^[A-Z][A-Z0-9_]*$/, 'must be the name of an environment variable')
    .nullable()
    .default('OPENAI_API_KEY'),
  models: z.array(name).min(1, 'must be a list of at least one model').default(['gpt-5.5']),
  idleTimeout: durationSchema('must be a duration such as 500ms, 10s or 5m').exactOptional(),
  turnTimeout: durationSchema('must be a duration such as 500ms, 10s or 5m').exactOptional(),
  maxThreads: z.int('must be an integer').min(1).exactOptional(),
  maxMemoryBytes: z.int('must be an integer').min(1).exactOptional(),
})

/** How to run codex: the key `codex` of the file. */
export type CodexSetting = z.infer<typeof codexSchema>

export function decodeCodexSetting(value: unknown, file: string): CodexSetting {
  const result = codexSchema.safeParse(value)
  if (result.success) return result.data
  const [issue] = result.error.issues
  const path = ['codex', ...(issue?.path ?? [])].join('.')
  throw new UsageError(`${path} of ${file}: ${issue?.message}`)
}

interface CodexDeps {
  readonly env: Environment
  readonly readSecret: (env: Environment, variable: string) => string | undefined
  readonly store: StoreChoice
  readonly onLog?: (line: string) => void
}

/** The provider that runs codex. Nothing is started or written before its first turn. */
export function configuredCodex(setting: CodexSetting, deps: CodexDeps): ConfiguredProvider {
  const { models, binary, homeTemplate, idleTimeout, turnTimeout } = setting
  const { maxThreads, maxMemoryBytes } = setting
  const home = codexHome(deps.store)
  const codex = createCodexProvider({
    home: () => home.directory,
    models,
    ...codexAccess(setting, deps),
    ...(binary !== undefined && { binary }),
    ...(homeTemplate !== undefined && { homeTemplate }),
    ...(idleTimeout !== undefined && { idleTimeoutMs: idleTimeout }),
    ...(turnTimeout !== undefined && { maxTurnMs: turnTimeout }),
    ...(maxThreads !== undefined && { maxThreads }),
    ...(maxMemoryBytes !== undefined && { maxResidentBytes: maxMemoryBytes }),
    ...(deps.onLog !== undefined && { onLog: deps.onLog }),
  })
  const provider: Provider = {
    id: codex.id,
    get health() {
      return codex.health
    },
    stream: (request, run, signal) => codex.stream(request, run, signal),
    stop: () => codex.stop().finally(() => home.remove()),
  }
  return { provider, models, defaultModel: models[0] ?? '' }
}

/** The API that codex calls, and the environment with its key. */
function codexAccess(
  { baseUrl, keyVariable, login }: CodexSetting,
  { env, readSecret }: CodexDeps,
): Pick<CodexProviderOptions, 'modelProvider' | 'env'> {
  if (login !== undefined) return { modelProvider: { baseUrl, usesLogin: true }, env }
  const modelProvider = { baseUrl: baseUrl ?? BASE_URL }
  if (keyVariable === null) return { modelProvider, env }
  const key = readSecret(env, keyVariable)
  return { modelProvider: { ...modelProvider, keyVariable }, env: { ...env, [keyVariable]: key } }
}

/** In the directory of an embedded store; with other stores a private one that is removed. */
function codexHome(store: StoreChoice): { readonly directory: string; remove(): void } {
  if (store.kind === 'embedded') return { directory: join(store.directory, 'codex'), remove() {} }
  let made: string | undefined
  return {
    get directory() {
      made ??= mkdtempSync(join(tmpdir(), 'turnstream-codex-'))
      return made
    },
    remove() {
      if (made !== undefined) rmSync(made, { recursive: true, force: true })
    },
  }
}
