/** Why a response ended, in one vocabulary for all vendors. */
export type FinishReason =
  | 'stop'
  | 'length'
  | 'tool_calls'
  | 'content_filter'
  | 'refusal'
  | 'pause'
  | 'other'
