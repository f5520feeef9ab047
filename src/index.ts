export { type Clock, sleep, systemClock } from './async/clock.ts'
export { ResponseStream } from './async/response-stream.ts'
export type { ResponseStreamConfig } from './async/response-stream-config.ts'
export { ResponseStreamError } from './async/response-stream-error.ts'
export { calculateRetryDelay, RetryExhaustedError } from './async/retry.ts'
export { DEFAULT_BATCH_GRADIENT } from './processor/batch-gradient.ts'
export {
  type BufferInfo,
  type BufferOptions,
  type BufferState,
  ContentBuffer,
} from './processor/content-buffer.ts'
export type { ProcessorOptions } from './processor/options.ts'
export { StreamProcessor } from './processor/stream-processor.ts'
export { estimateTokenCount } from './processor/token-estimate.ts'
export { type Decoded, decode, decodeText } from './protocol/decode.ts'
export { ERROR_CODES, type ErrorCode, TurnstreamError } from './protocol/errors.ts'
export { generateEventId } from './protocol/ids.ts'
export { parseJsonSafe } from './protocol/json.ts'
export { HEADERS, ROUTES, SSE_EVENTS } from './protocol/names.ts'
export { type MessageOrigin, type OutputItem, outputItemSchema } from './protocol/output-item.ts'
export {
  type Response,
  type ResponseItem,
  type ResponseStatus,
  responseSchema,
} from './protocol/response.ts'
export { type ResponseEvent, responseEventSchema } from './protocol/response-event.ts'
export {
  type DecodedStreamEvent,
  decodeStreamEvent,
  type ErrorObject,
  type ItemType,
  parseStreamEvent,
  STREAM_EVENT_TYPES,
  type StreamEvent,
  type StreamEventPayload,
  type StreamEventType,
  streamEventSchema,
  type TraceContext,
  type TurnStatus,
  type UnknownStreamEvent,
} from './protocol/stream-event.ts'
export { isStreamEvent, streamEventFault } from './protocol/stream-event-guard.ts'
export {
  type Content,
  type ContentType,
  contentSchema,
  type Message,
  type Status,
  type StreamMessage,
  type StreamOutput,
  streamMessageSchema,
  streamOutputSchema,
  type Thinking,
  type ToolCall,
  type TurnComplete,
  type TurnError,
  type TurnEvent,
  type TurnStarted,
  turnEventSchema,
} from './protocol/stream-output.ts'
export { type Usage, usageSchema } from './protocol/usage.ts'
export { initialReducerState, type ReducerState, reduce, toResponse } from './reducer/reduce.ts'
export { ResponseReducer } from './reducer/response-reducer.ts'
