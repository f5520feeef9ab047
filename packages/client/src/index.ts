// For users: turns and threads of a gateway.

export type {
  ItemSnapshot,
  StreamOutput,
  ToolCall,
} from '@turnstream/core/internal/protocol/stream-output'
export { type Client, type ClientOptions, createClient } from './client/client.ts'
export type { ConnectionState } from './client/connection.ts'
export { ClientError } from './client/errors.ts'
export type { Live } from './client/live.ts'
export type { PageLifecycle } from './client/page.ts'
export type { Delivery, OnAuth, Token } from './client/requests.ts'
export type {
  ApprovalAnswer,
  AttachmentPart,
  ClientTool,
  HistoryInput,
  MessageInput,
  SubmitRequest,
  TextPart,
  ThreadList,
  ToolAnswer,
  ToolOutputInput,
  TurnSettings,
} from './client/submit.ts'
export type { Thread, ThreadState } from './client/thread.ts'
export type { Turn, TurnState } from './client/turn.ts'
export type { TurnView, View } from './client/view.ts'

// For other libraries: views of streams that they read themselves.

export { type AppendFrame, applyAppend } from '@turnstream/core/internal/protocol/append-frame'
export type { Share } from './client/live.ts'
export { append, apply, EMPTY_VIEW, prepend } from './client/view.ts'
