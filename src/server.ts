export { type EmbeddedLogOptions, openEmbeddedLog } from './log/embedded/open.ts'
export { TurnExistsError } from './log/errors.ts'
export { LogWriter, type LogWriterOptions, type WriteOptions } from './log/log-writer.ts'
export { MemoryLog, type MemoryLogOptions } from './log/memory-log.ts'
export type { RedisLogOptions, RedisServer } from './log/redis/options.ts'
export { openRedisLog } from './log/redis/redis-log.ts'
export type {
  Lease,
  LogName,
  LogRecord,
  NewRecord,
  NewThread,
  NewTurn,
  Page,
  PageOptions,
  Resync,
  Tail,
  Tailed,
  ThreadRecord,
  TurnLog,
  TurnPageOptions,
  TurnRecord,
  TurnSnapshot,
} from './log/turn-log.ts'
export { endOrphan } from './turns/end-orphan.ts'
export { endOrphans } from './turns/end-orphans.ts'
