import { approvalPolicy, type CodexAgent } from './agent.ts'
import { UNLIMITED } from './catalog.ts'

/** The Responses API that codex calls. */
export interface ModelProvider {
  /** May be missing with a login: codex then chooses it. */
  readonly baseUrl?: string | undefined
  /** Environment variable of its key; none for a server without keys. */
  readonly keyVariable?: string | undefined
  /** Whether codex uses the login in `auth.json` of its home instead of a key. */
  readonly usesLogin?: boolean
}

export interface CodexConfig {
  readonly models: readonly string[]
  readonly modelProvider: ModelProvider
  readonly idleMs: number
  /** Without it codex is a plain model server. */
  readonly agent?: CodexAgent | undefined
}

export const PROVIDER = 'upstream'

/** The variable that has the key in the environment of codex. By its own name another provider could find it. */
export const KEY_VARIABLE = 'TURNSTREAM_UPSTREAM_KEY'

/** Where the built-in providers of codex would call: nobody. */
const NOWHERE = 'http://127.0.0.1:1'

type Setting = readonly [key: string, value: string]

const FEATURES_OFF = `
  unified_exec unbounded_connection_retries apps plugins remote_plugin plugin_sharing plugin_discovery_prefetch
  tool_suggest skill_search shell_snapshot memories goals image_generation view_image sleep_tool hooks
  browser_use browser_use_external computer_use in_app_browser`

/**
 * The configuration of codex: no retries (they would repeat text that was sent), and no other host than the model
 * provider's. Unless it is an agent, codex is a plain model server: only the tools of the request, no built-in prompts,
 * no compaction.
 */
export function codexSettings(config: CodexConfig, catalog: string): readonly Setting[] {
  const { models, agent, modelProvider } = config
  return [
    ['model', toml(models[0] ?? '')],
    ['model_provider', toml(PROVIDER)],
    ['check_for_update_on_startup', 'false'],
    ['web_search', '"disabled"'],
    ['cli_auth_credentials_store', '"file"'],
    ['suppress_unstable_features_warning', 'true'],
    ...(agent === undefined ? plainModel(catalog) : agentRules(agent)),
    ...providerSettings(config),
    ...(modelProvider.usesLogin ? [] : NO_OTHER_PROVIDER),
    ...NOTHING_SENT_OR_KEPT,
    ['agents.enabled', 'false'],
    ...words(FEATURES_OFF).map((feature): Setting => [`features.${feature}`, 'false']),
    ['features.shell_tool', `${agent !== undefined}`],
  ]
}

function plainModel(catalog: string): Setting[] {
  return [
    ['model_catalog_json', toml(catalog)],
    ['approval_policy', '"never"'],
    ['sandbox_mode', '"read-only"'],
    ['tool_output_token_limit', `${UNLIMITED}`],
    ['project_doc_max_bytes', '0'],
    ['include_permissions_instructions', 'false'],
    ['include_environment_context', 'false'],
    ['include_apps_instructions', 'false'],
    ['include_collaboration_mode_instructions', 'false'],
    ['tools.update_plan.enabled', 'false'],
  ]
}

/** Commands get no key. Configuration in the directory, which the agent could write itself, is not read. */
function agentRules(agent: CodexAgent): Setting[] {
  return [
    ['approval_policy', toml(approvalPolicy(agent))],
    ['sandbox_mode', toml(agent.sandbox)],
    ['tools.update_plan.enabled', 'true'],
    ['shell_environment_policy.inherit', '"core"'],
    ['shell_environment_policy.ignore_default_excludes', 'false'],
    ['shell_environment_policy.exclude', `[${toml(KEY_VARIABLE)}]`],
    ['projects', `{ ${toml(agent.directory)} = { trust_level = "untrusted" } }`],
  ]
}

function providerSettings({ modelProvider, idleMs }: CodexConfig): Setting[] {
  const { baseUrl, keyVariable, usesLogin = false } = modelProvider
  const settings: Setting[] = [
    ['name', toml(PROVIDER)],
    ...(baseUrl === undefined ? [] : [['base_url', toml(baseUrl)] as const]),
    ['wire_api', '"responses"'],
    ...(keyVariable === undefined ? [] : [['env_key', toml(KEY_VARIABLE)] as const]),
    ['requires_openai_auth', `${usesLogin}`],
    ['supports_websockets', 'false'],
    ['request_max_retries', '0'],
    ['stream_max_retries', '0'],
    ['stream_idle_timeout_ms', `${idleMs}`],
  ]
  return settings.map(([key, value]) => [`model_providers.${PROVIDER}.${key}`, value])
}

const NO_OTHER_PROVIDER: readonly Setting[] = [
  ['openai_base_url', toml(NOWHERE)],
  ['chatgpt_base_url', toml(NOWHERE)],
]

const NOTHING_SENT_OR_KEPT: readonly Setting[] = [
  ['analytics.enabled', 'false'],
  ['feedback.enabled', 'false'],
  ['otel.exporter', '"none"'],
  ['otel.trace_exporter', '"none"'],
  ['otel.metrics_exporter', '"none"'],
  ['history.persistence', '"none"'],
  ['skills.include_instructions', 'false'],
  ['skills.bundled.enabled', 'false'],
  ['tools.experimental_request_user_input.enabled', 'false'],
]

export function words(text: string): string[] {
  return text.trim().split(/\s+/)
}

/** A TOML basic string has the escapes of JSON. */
function toml(text: string): string {
  return JSON.stringify(text)
}
