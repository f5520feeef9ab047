export type MessageOrigin = 'user' | 'agent' | 'system'

export type OutputItem =
  | MessageItem
  | ReasoningItem
  | FunctionCallItem
  | FunctionCallOutputItem
  | ApprovalRequestItem
  | ApprovalResponseItem
  | ErrorItem
  | CancelledItem

interface ItemFields {
  id: string
  /** Opaque: stored, never interpreted, and sent back to the same provider. */
  provider_metadata?: Record<string, unknown>
}

interface MessageItem extends ItemFields {
  type: 'message'
  content: string
  origin: MessageOrigin
  /** Of the author, for vendors that know names. */
  name?: string
  attachments?: Attachment[]
}

interface ReasoningItem extends ItemFields {
  type: 'reasoning'
  content: string
  origin?: MessageOrigin
}

interface FunctionCallItem extends ItemFields {
  type: 'function_call'
  name: string
  /** The JSON text exactly as the model wrote it. */
  arguments: string
  call_id: string
  approval?: ApprovalRequest
}

interface FunctionCallOutputItem extends ItemFields {
  type: 'function_call_output'
  call_id: string
  output: string
  success: boolean
}

/** Asks for approval of an earlier call, which its provider runs itself. */
interface ApprovalRequestItem extends ItemFields {
  type: 'approval_request'
  approval_id: string
  call_id: string
}

/** Whether a call may run. */
interface ApprovalResponseItem extends ItemFields {
  type: 'approval_response'
  approval_id: string
  call_id: string
  approved: boolean
  reason?: string
  /** The name of a key. */
  answered_by?: string
  answered_at: number
}

interface ErrorItem extends ItemFields {
  type: 'error'
  code: string
  message: string
  details?: unknown
}

interface CancelledItem extends ItemFields {
  type: 'cancelled'
  reason?: string
}

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
