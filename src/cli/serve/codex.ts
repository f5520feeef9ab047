import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as z from 'zod'
import { BASE_URL } from '../../adapters/openai-responses/adapter.ts'
import type { Provider } from '../../adapters/provider.ts'
import { BASE_URL_TAKES, isBaseUrl } from '../../adapters/vendor-request.ts'
import { createCodexProvider } from '../../codex/provider.ts'
import type { ConfiguredProvider } from '../../turns/providers.ts'
import { UsageError } from '../command.ts'
import type { Environment } from './configuration.ts'
import { durationSchema } from './settings.ts'
import type { StoreChoice } from './store.ts'

const name = z.string().trim().min(1, 'must be a name')

const codexSchema = z.strictObject({
  /** The codex binary; found by itself where it is installed. */
  binary: name.exactOptional(),
  /** The Responses API that codex calls. */
  baseUrl: z
    .string()
    .refine(isBaseUrl, { error: `must be ${BASE_URL_TAKES}` })
    .default(BASE_URL),
  /** Environment variable with the key of that API; null if it needs none. */
  keyVariable: z
    .string()
    .regex(/^[A-Z][A-Z0-9_]*$/, 'must be the name of an environment variable')
    .nullable()
    .default('OPENAI_API_KEY'),
  models: z.array(name).min(1, 'must be a list of at least one model').default(['gpt-5.5']),
  idleTimeout: durationSchema('must be a duration such as 500ms, 10s or 5m').exactOptional(),
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
  const { models, baseUrl, keyVariable, binary, idleTimeout, maxThreads, maxMemoryBytes } = setting
  const key = keyVariable === null ? undefined : deps.readSecret(deps.env, keyVariable)
  const home = codexHome(deps.store)
  const codex = createCodexProvider({
    home: () => home.directory,
    models,
    modelProvider: { baseUrl, ...(keyVariable !== null && { keyVariable }) },
    env: { ...deps.env, ...(keyVariable !== null && { [keyVariable]: key }) },
    ...(binary !== undefined && { binary }),
    ...(idleTimeout !== undefined && { idleTimeoutMs: idleTimeout }),
    ...(maxThreads !== undefined && { maxThreads }),
    ...(maxMemoryBytes !== undefined && { maxResidentBytes: maxMemoryBytes }),
    ...(deps.onLog !== undefined && { onLog: deps.onLog }),
  })
  const provider: Provider = {
    id: codex.id,
    stream: (request, run, signal) => codex.stream(request, run, signal),
    stop: () => codex.stop().finally(() => home.remove()),
  }
  return { provider, models, defaultModel: models[0] ?? '' }
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
