// For users: a gateway, its stores, providers and tools.

export type {
  HistoryItem,
  SettingSources,
  SubmissionSettings,
  TurnInput,
} from '@turnstream/core/internal/formats/submission'
export type { Attachment } from '@turnstream/core/internal/protocol/output-item'
export type { Approval } from '@turnstream/core/internal/protocol/stream-output'
export type { AgentApprovals, AgentSandbox, CodexAgent } from './codex/agent.ts'
export type { ModelProvider } from './codex/config.ts'
export {
  type CodexProvider,
  type CodexProviderOptions,
  createCodexProvider,
} from './codex/provider.ts'
export { type EmbeddedLogOptions, openEmbeddedLog, type SyncPolicy } from './log/embedded/open.ts'
export { MemoryLog, type MemoryLogOptions } from './log/memory-log.ts'
export type { RedisLogOptions, RedisServer } from './log/redis/open.ts'
export { openRedisLog } from './log/redis/open.ts'
export type { ProcessHealth } from './providers/provider.ts'
export {
  type KeyEntry,
  type KeyName,
  KeyRing,
  type PlainKey,
  parseKeysFile,
} from './server/auth/key-ring.ts'
export type { GatewayApp } from './server/context.ts'
export {
  createGateway,
  type ErrorSubject,
  type Gateway,
  type GatewayOptions,
} from './server/gateway.ts'
export type { GatewayLimits } from './server/limits/key-limits.ts'
export type { PortLimits } from './server/limits/port-limits.ts'
export {
  type Listening,
  type ListenOptions,
  listen,
  type RefusedConnections,
} from './server/listen.ts'
export type { RequestFacts, TurnListener } from './server/metrics/gateway-metrics.ts'
export type { RunRequest } from './server/run.ts'
export { createHttpTool, type HttpToolOptions } from './tools/http-tool.ts'
export type { ToolLimits } from './tools/limits.ts'
export type { McpEndpoint, McpProcess, McpServer } from './tools/mcp-server.ts'
export { connectMcpTools, type McpTools, type McpToolsOptions } from './tools/mcp-tools.ts'
export type { ProcessorSettings } from './turns/processor-settings.ts'
export {
  type ChosenModel,
  type ConfiguredProvider,
  type ModelAliases,
  Providers,
  type RequestedModel,
} from './turns/providers.ts'
export type { ToolSource } from './turns/tool-sources.ts'
export type { Tool, ToolCallContext } from './turns/tools.ts'
export type {
  ToolOutcome,
  TurnCounts,
  TurnFacts,
  TurnObserver,
  TurnOutcome,
} from './turns/turn-observer.ts'
export type { TurnCaps } from './turns/turn-runner.ts'

// For other libraries: to run turns and to store them in another way.

export type { StopSignal } from '@turnstream/core/internal/async/on-abort'
export type { Submission } from '@turnstream/core/internal/formats/submission'
export type {
  AddResult,
  EventRecord,
  KeyedRecords,
  Lease,
  ListedTurn,
  LogName,
  LogRecord,
  LogWriter,
  NewOutput,
  NewRecord,
  NewThread,
  NewTurn,
  Orphan,
  OutputRecord,
  Page,
  PageOptions,
  Replaced,
  Resync,
  StoredRecord,
  Tail,
  ThreadRecord,
  TurnLog,
  TurnPageOptions,
  TurnRecord,
  TurnSnapshot,
  WriterOptions,
} from '@turnstream/core/internal/log/turn-log'
export { TurnExistsError } from './log/rules.ts'
export type { ErrorBody } from './server/error-response.ts'
export { createRequestListener } from './server/listen.ts'
export { createProviderFetch, type ProviderFetchOptions } from './server/provider-fetch.ts'
export {
  endOrphan,
  endOrphans,
  type OrphanOptions,
  type OrphanResult,
  type OrphansOptions,
} from './turns/reaper.ts'
export type { Submitted } from './turns/turn-request.ts'
export { type SubmitOptions, TurnRunner, type TurnRunnerOptions } from './turns/turn-runner.ts'
