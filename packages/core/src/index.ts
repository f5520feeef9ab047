// For users: streams of models as events, snapshots and responses.

export type { ResponseStreamConfig } from './async/response-stream.ts'
export { ResponseStream, ResponseStreamError } from './async/response-stream.ts'
export {
  type Cassette,
  type CassetteCall,
  type CassetteChunk,
  encodeCassette,
  type TimedEvent,
  type TimedOutput,
} from './cassettes/cassette.ts'
export {
  type CompareOptions,
  compareCassettes,
  type Difference,
  type Layer,
} from './cassettes/compare.ts'
export { type CassetteLimits, readCassette } from './cassettes/decode.ts'
export { cassetteEvents } from './cassettes/layers.ts'
export { cassetteRecording } from './cassettes/recording.ts'
export type {
  ChatChunk,
  ChatChunkChoice,
  ChatChunkHead,
  ChatCompletion,
  ChatCustomCall,
  ChatDelta,
  ChatError,
  ChatFinishReason,
  ChatFrame,
  ChatFunctionCall,
  ChatMessage,
  ChatTextField,
  ChatToolCall,
  ChatToolCallDelta,
  ChatUsage,
} from './formats/chat-completions/wire.ts'
export { ChatCompletionsEncoder } from './formats/chat-completions/write.ts'
export type { ChatCompletionsOptions } from './formats/chat-completions/write-chunks.ts'
export {
  type ChatCompletionOptions,
  toChatCompletion,
} from './formats/chat-completions/write-completion.ts'
export type {
  MessagesBlock,
  MessagesDelta,
  MessagesError,
  MessagesEvent,
  MessagesObject,
  MessagesStopReason,
  MessagesUsage,
} from './formats/messages/wire.ts'
export { MessagesEncoder } from './formats/messages/write.ts'
export type { MessagesHead } from './formats/messages/write-events.ts'
export type { ConfiguredTraits, Effort, ModelTraits } from './formats/model-traits.ts'
export type {
  FittedSettings,
  JsonSchemaFormat,
  ModelSettings,
  ProviderRequest,
  RunContext,
  SettingName,
  ThinkingParameters,
  ToolDefinition,
} from './formats/provider-request.ts'
export { type ReadEventsOptions, readEvents } from './formats/read-events.ts'
export type { VendorName } from './formats/registry.ts'
export type {
  ResponsesCustomCall,
  ResponsesError,
  ResponsesEvent,
  ResponsesFunctionCall,
  ResponsesItem,
  ResponsesItemPlace,
  ResponsesItemStatus,
  ResponsesMessage,
  ResponsesObject,
  ResponsesParameters,
  ResponsesPart,
  ResponsesReasoning,
  ResponsesReasoningName,
  ResponsesReasoningText,
  ResponsesStatus,
  ResponsesSummaryText,
  ResponsesUnnumberedEvent,
  ResponsesUsage,
} from './formats/responses/wire.ts'
export { ResponsesEncoder, type ResponsesEncoderOptions } from './formats/responses/write.ts'
export type { ResponsesHead, ResponsesWriterOptions } from './formats/responses/write-events.ts'
export { decodeRecording, type Recording, type Recordings } from './formats/v2/recording.ts'
export type { ProcessorOptions } from './processor/options.ts'
export { DEFAULT_BATCH_GRADIENT } from './processor/options.ts'
export { StreamProcessor } from './processor/stream-processor.ts'
export type {
  CallEnd,
  CassetteHeader,
  CassetteRequest,
  CassetteResponse,
} from './protocol/cassette.ts'
export { ERROR_CODES, type ErrorCode, TurnstreamError } from './protocol/errors.ts'
export type { MessageOrigin, OutputItem } from './protocol/output-item.ts'
export type {
  ReducedResponse,
  Response,
  ResponseEvent,
  ResponseItem,
  ResponseStatus,
} from './protocol/response.ts'
export type {
  DecodedStreamEvent,
  ErrorObject,
  ItemType,
  StreamEvent,
  StreamEventPayload,
  StreamEventType,
  TraceContext,
  TurnStatus,
  UnknownStreamEvent,
  Usage,
} from './protocol/stream-event.ts'
export type {
  Approval,
  Content,
  ContentType,
  ItemSnapshot,
  Message,
  MessageSnapshot,
  PendingCall,
  SnapshotStatus,
  Status,
  StreamMessage,
  StreamOutput,
  Thinking,
  ToolCall,
  TurnComplete,
  TurnError,
  TurnEvent,
  TurnStarted,
} from './protocol/stream-output.ts'
export { ResponseReducer } from './reducer/reduce.ts'

// For other libraries: the parts that these are built from.

export { type Clock, sleep } from './async/clock.ts'
export { calculateRetryDelay, RetryExhaustedError } from './async/retry.ts'
export { translateOpenaiChat } from './formats/chat-completions/read.ts'
export { translateCodex } from './formats/codex/read.ts'
export { type StampOptions, stamp } from './formats/event-stamp.ts'
export { translateGemini } from './formats/gemini/read.ts'
export { translateAnthropicMessages } from './formats/messages/read.ts'
export { translateResponseNotifications } from './formats/response-notifications/read.ts'
export { translateOpenaiResponses } from './formats/responses/read.ts'
export {
  ToolCallAggregator,
  type ToolCallAggregatorOptions,
  type ToolCallChange,
  type ToolCallState,
} from './formats/tool-call-aggregator.ts'
export type { FinishReason, Translation, TranslationContext } from './formats/translation.ts'
export { v2Sse } from './formats/v2/write.ts'
export type { VendorOptions } from './formats/vendor-request.ts'
export { xapiSse } from './formats/xapi/write.ts'
export { isExecutedByProvider } from './items/marks.ts'
export {
  type BufferInfo,
  type BufferOptions,
  type BufferState,
  ContentBuffer,
} from './processor/content-buffer.ts'
export { estimateTokenCount } from './processor/options.ts'
export { type AppendFrame, applyAppend } from './protocol/append-frame.ts'
export { generateEventId } from './protocol/ids.ts'
export type { Decoded } from './protocol/json.ts'
export { parseJsonSafe } from './protocol/json.ts'
export { isStreamEvent } from './protocol/stream-event-guard.ts'
export { initialReducerState, type ReducerState, reduce, toResponse } from './reducer/reduce.ts'
export {
  SseDecoder,
  type SseDecoderOptions,
  type SseEvent,
  type SseLimit,
  SseLimitError,
} from './sse/decode.ts'
export { encodeSse, type SseFrame } from './sse/encode.ts'
