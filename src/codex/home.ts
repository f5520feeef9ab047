import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { approvalPolicy, type CodexAgent } from './agent.ts'
import { copyTemplate } from './home-template.ts'

/** The Responses API that codex calls. */
export interface ModelProvider {
  /** May be missing with a login: codex then chooses it. */
  readonly baseUrl?: string | undefined
  /** Environment variable of its key; none for a server without keys. */
  readonly keyVariable?: string | undefined
  /** Whether codex uses the login in `auth.json` of its home instead of a key. */
  readonly usesLogin?: boolean
}

export interface CodexHome {
  /** `CODEX_HOME`, created with mode 0700. */
  readonly directory: string
  readonly models: readonly string[]
  readonly modelProvider: ModelProvider
  /** How long the model may be silent. */
  readonly idleMs: number
  /** A directory whose files the home starts with. */
  readonly template?: string | undefined
  /** Without it codex is a plain model server. */
  readonly agent?: CodexAgent | undefined
}

/** The name of the model provider in the configuration of codex. */
const PROVIDER = 'upstream'

/**
 * Writes the configuration of codex: no retries (they would repeat text that was sent), and no other host than the model
 * provider's. Unless it is an agent, codex is a plain model server: only the tools of the request, no built-in prompts,
 * no compaction.
 */
export function writeCodexHome(home: CodexHome): void {
  const { directory, models, agent } = home
  mkdirSync(workDirectory(directory), { recursive: true, mode: 0o700 })
  chmodSync(directory, 0o700)
  if (home.template !== undefined) copyTemplate(home.template, directory)
  const catalog = join(directory, 'catalog.json')
  const entries = JSON.stringify({ models: models.map(catalogEntry) })
  if (agent === undefined) writeFileSync(catalog, entries, { mode: 0o600 })
  writeFileSync(join(directory, 'config.toml'), configToml(home, catalog), { mode: 0o600 })
}

/** An empty directory: the working directory of the app-server and of its threads. */
export function workDirectory(home: string): string {
  return join(home, 'work')
}

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh']
const UNLIMITED = 1_000_000_000

/** Only the catalog switches off built-in tools, code mode, truncation and compaction. */
function catalogEntry(slug: string) {
  return {
    slug,
    display_name: slug,
    description: null,
    supported_reasoning_levels: EFFORTS.map((effort) => ({ effort, description: effort })),
    shell_type: 'disabled',
    visibility: 'list',
    supported_in_api: true,
    priority: 1,
    availability_nux: null,
    upgrade: null,
    support_verbosity: true,
    default_verbosity: null,
    apply_patch_tool_type: null,
    tool_mode: 'direct',
    use_responses_lite: false,
    truncation_policy: { mode: 'bytes', limit: UNLIMITED },
    experimental_supported_tools: [],
    supports_search_tool: false,
    input_modalities: ['text', 'image'],
    base_instructions: 'You are a helpful assistant.',
    context_window: UNLIMITED,
    max_context_window: UNLIMITED,
  }
}

const FEATURES_OFF = [
  'unified_exec',
  'unbounded_connection_retries',
  'apps',
  'plugins',
  'remote_plugin',
  'plugin_sharing',
  'plugin_discovery_prefetch',
  'tool_suggest',
  'skill_search',
  'shell_snapshot',
  'memories',
  'multi_agent',
  'goals',
  'image_generation',
  'view_image',
  'sleep_tool',
  'hooks',
  'browser_use',
  'browser_use_external',
  'computer_use',
  'in_app_browser',
]

function configToml(home: CodexHome, catalog: string): string {
  const { models, agent } = home
  return [
    `model = ${toml(models[0] ?? '')}`,
    `model_provider = ${toml(PROVIDER)}`,
    'check_for_update_on_startup = false',
    'web_search = "disabled"',
    'cli_auth_credentials_store = "file"',
    'suppress_unstable_features_warning = true',
    ...(agent === undefined ? plainModel(catalog) : agentRules(agent, home.modelProvider)),
    ...providerTable(home),
    ...NOTHING_SENT_OR_KEPT,
    '[features]',
    ...FEATURES_OFF.map((feature) => `${feature} = false`),
    `shell_tool = ${agent !== undefined}`,
    '',
  ].join('\n')
}

function plainModel(catalog: string): string[] {
  return [
    `model_catalog_json = ${toml(catalog)}`,
    'approval_policy = "never"',
    'sandbox_mode = "read-only"',
    `tool_output_token_limit = ${UNLIMITED}`,
    'project_doc_max_bytes = 0',
    'include_permissions_instructions = false',
    'include_environment_context = false',
    'include_apps_instructions = false',
    'include_collaboration_mode_instructions = false',
    '[tools.update_plan]',
    'enabled = false',
  ]
}

/** Commands get no key. Configuration in the directory, which the agent could write itself, is not read. */
function agentRules(agent: CodexAgent, { keyVariable }: ModelProvider): string[] {
  return [
    `approval_policy = ${toml(approvalPolicy(agent))}`,
    `sandbox_mode = ${toml(agent.sandbox)}`,
    '[tools.update_plan]',
    'enabled = true',
    '[shell_environment_policy]',
    'inherit = "core"',
    'ignore_default_excludes = false',
    ...(keyVariable === undefined ? [] : [`exclude = [${toml(keyVariable)}]`]),
    `[projects.${toml(agent.directory)}]`,
    'trust_level = "untrusted"',
  ]
}

function providerTable({ modelProvider, idleMs }: CodexHome): string[] {
  const { baseUrl, keyVariable, usesLogin = false } = modelProvider
  return [
    `[model_providers.${PROVIDER}]`,
    `name = ${toml(PROVIDER)}`,
    ...(baseUrl === undefined ? [] : [`base_url = ${toml(baseUrl)}`]),
    'wire_api = "responses"',
    ...(keyVariable === undefined ? [] : [`env_key = ${toml(keyVariable)}`]),
    `requires_openai_auth = ${usesLogin}`,
    'supports_websockets = false',
    'request_max_retries = 0',
    'stream_max_retries = 0',
    `stream_idle_timeout_ms = ${idleMs}`,
  ]
}

const NOTHING_SENT_OR_KEPT = [
  '[analytics]',
  'enabled = false',
  '[feedback]',
  'enabled = false',
  '[otel]',
  'exporter = "none"',
  'trace_exporter = "none"',
  'metrics_exporter = "none"',
  '[history]',
  'persistence = "none"',
  '[skills]',
  'include_instructions = false',
  '[skills.bundled]',
  'enabled = false',
  '[tools.experimental_request_user_input]',
  'enabled = false',
]

/** A TOML basic string has the escapes of JSON. */
function toml(text: string): string {
  return JSON.stringify(text)
}
