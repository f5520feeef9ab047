export type MessageOrigin = 'user' | 'agent' | 'system'

export type OutputItem = {
  id: string
  /** Opaque: stored, never interpreted, and sent back to the same provider. */
  provider_metadata?: Record<string, unknown>
} & (
  | {
      type: 'message'
      content: string
      origin: MessageOrigin
      /** Of the author, for vendors that know names. */
      name?: string
      attachments?: Attachment[]
    }
  | { type: 'reasoning'; content: string; origin?: MessageOrigin }
  | {
      type: 'function_call'
      name: string
      /** The JSON text exactly as the model wrote it. */
      arguments: string
      call_id: string
      approval?: ApprovalRequest
    }
  | { type: 'function_call_output'; call_id: string; output: string; success: boolean }
  /** Asks for approval of an earlier call, which its provider runs itself. */
  | { type: 'approval_request'; approval_id: string; call_id: string }
  /** Whether a call may run. */
  | {
      type: 'approval_response'
      approval_id: string
      call_id: string
      approved: boolean
      reason?: string
      /** The name of a key. */
      answered_by?: string
      answered_at: number
    }
  | { type: 'error'; code: string; message: string; details?: unknown }
  | { type: 'cancelled'; reason?: string }
)

/** An image or a file attached to a message. */
export interface Attachment {
  type: 'image' | 'file'
  media_type: string
  /** Base64. */
  data: string
  /** Of a file. */
  filename?: string
}

/** A request for approval, answered by an `approval_response` item. */
export interface ApprovalRequest {
  id: string
  status: 'requested'
}

export type FunctionCall = Extract<OutputItem, { type: 'function_call' }>
