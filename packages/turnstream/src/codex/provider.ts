import { type Clock, systemClock } from '@turnstream/core/internal/async/clock'
import { translateCodex } from '@turnstream/core/internal/formats/codex/read'
import { fitSettings } from '@turnstream/core/internal/formats/settings'
import { MAX_ARGUMENT_CHARS } from '@turnstream/core/internal/formats/translation'
import { optionInvalid } from '@turnstream/core/internal/protocol/errors'
import { withoutUndefined } from '@turnstream/core/internal/protocol/json'
import { redacting } from '@turnstream/core/internal/protocol/redaction'
import { CODEX_ID, type Provider, ProviderStream } from '../providers/provider.ts'
import { concealing } from '../providers/vendor-errors.ts'
import type { CodexAgent } from './agent.ts'
import { AgentTurn } from './agent-turn.ts'
import { findCodex } from './binary.ts'
import { KEY_VARIABLE, type ModelProvider, words } from './config.ts'
import { CodexHomes } from './home.ts'
import { buildCodexRequest } from './request.ts'
import { CODEX_SETTINGS } from './settings.ts'
import { CodexSupervisor } from './supervisor.ts'
import { CodexTurn } from './turn.ts'

export interface CodexProviderOptions {
  /** Provider id of its responses. `codex` by default. */
  id?: string
  /** The codex binary. By default from an installed `@openai/codex`, or `codex` in the `PATH`. */
  binary?: string
  /** Directory of its own, created with the first process. Each process gets a `CODEX_HOME` in it. */
  home: string | (() => string)
  /** A directory whose files each home starts with, such as the `auth.json` of a login. */
  homeTemplate?: string
  /** Models that requests may name; the first is the default. */
  models: readonly string[]
  /** The Responses API that codex calls. */
  modelProvider: ModelProvider
  /** Lets codex work with its own tools, in a directory. Without it codex is a plain model server. */
  agent?: CodexAgent
  /** Environment of the process. `PATH`, proxies, certificates and the provider's key are passed on. */
  env?: Readonly<Record<string, string | undefined>>
  /** Silence of codex after which a turn fails. 300 s by default. */
  idleTimeoutMs?: number
  /** Total time of a call, after which it fails. 30 minutes by default. */
  maxTurnMs?: number
  /** Silence after a complete call that ends a response which broke off, or forwarded events. 1 s by default. */
  quietPeriodMs?: number
  /** Limit for the start of the process, and for its answers. 20 s by default. */
  requestTimeoutMs?: number
  /** Threads after which the process is replaced. 200 by default. */
  maxThreads?: number
  /** Memory after which the process is replaced. 1 GiB by default. */
  maxResidentBytes?: number
  clock?: Clock
  onLog?: (line: string) => void
  onUnknown?: (type: string) => void
}

/** A codex app-server as a provider. Its process starts with the first turn; `stop` ends it. */
export type CodexProvider = Required<Provider>

/** Variables that the process needs to reach the model provider. */
const PASSED_ON = words(`
  PATH HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
  SSL_CERT_FILE SSL_CERT_DIR`)

/** Runs a real `codex app-server` and calls it as a model. */
export function createCodexProvider(options: CodexProviderOptions): CodexProvider {
  const { id = CODEX_ID, models, modelProvider, agent, clock = systemClock } = options
  const { idleTimeoutMs: idleMs = 300_000, maxTurnMs = 1_800_000, quietPeriodMs = 1000 } = options
  const limits = { idleMs, maxTurnMs, quietMs: quietPeriodMs }
  const env = childEnvironment(options.env ?? process.env, modelProvider)
  const { baseUrl } = modelProvider
  if (!baseUrl && !modelProvider.usesLogin) {
    throw optionInvalid('modelProvider.baseUrl is missing: codex would choose an API by itself')
  }
  const apiKey = env[KEY_VARIABLE]
  const redact = redacting(apiKey === undefined ? [] : [apiKey])
  const conceal = concealing(withoutUndefined({ baseUrl, apiKey }))
  let homes: CodexHomes | undefined
  const supervisor = new CodexSupervisor({
    prepare() {
      const binary = findCodex(options.binary, env['PATH'])
      const { home, homeTemplate: template } = options
      const directory = typeof home === 'string' ? home : home()
      homes ??= new CodexHomes({ directory, models, modelProvider, idleMs, template, agent })
      return { binary, ...homes.create() }
    },
    onExit: (home) => homes?.remove(home),
    baseUrl,
    env,
    clock,
    requestTimeoutMs: options.requestTimeoutMs ?? 20_000,
    maxThreads: options.maxThreads ?? 200,
    maxResidentBytes: options.maxResidentBytes ?? 2 ** 30,
    onLog: (line) => options.onLog?.(redact(line)),
  })
  return {
    id,
    get health() {
      return supervisor.health
    },
    maxArgumentChars: MAX_ARGUMENT_CHARS,
    stop: () => supervisor.stop(),
    fit: (request) => fitSettings(CODEX_SETTINGS, request),
    stream(request, { onUnknown = options.onUnknown, isApproved, ...run }, signal) {
      const stream = new ProviderStream(signal, clock)
      const context = { ...run, providerId: id, modelId: request.model, now: () => clock.now() }
      const translation = translateCodex({ ...context, onUnknown, conceal })
      const parts = { stream, translation, clock, supervisor, ...limits }
      const turn = new CodexTurn({ ...parts, agent: agent && new AgentTurn(agent, isApproved) })
      void turn.run(() => buildCodexRequest(request, models, agent))
      return stream
    },
  }
}

/** Nothing else is passed on: variables such as `OPENAI_BASE_URL` could lead codex to another API. */
function childEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  { keyVariable }: ModelProvider,
): Record<string, string> {
  const passed = PASSED_ON.flatMap((name) => (env[name] ? [[name, env[name]]] : []))
  const key = keyVariable === undefined ? undefined : env[keyVariable]
  return { ...Object.fromEntries(passed), ...(key && { [KEY_VARIABLE]: key }) }
}
