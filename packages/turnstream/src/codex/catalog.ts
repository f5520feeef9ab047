/** No limit that a model could reach. */
export const UNLIMITED = 1_000_000_000

export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh'] as const

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

export function catalogOf(models: readonly string[]): string {
  return JSON.stringify({ models: models.map(catalogEntry) })
}
