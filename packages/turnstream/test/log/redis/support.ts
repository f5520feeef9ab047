import { redisCommand } from '../../../../../scripts/redis-server.mjs'
import type { TurnLogUnderTest } from '../../../../conformance/src/index.ts'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import { openRedisLog, type RedisLogOptions, type RedisServer } from '../../../src/server.ts'

let opened = 0

/** A prefix that no other case of this process has. */
function freshPrefix(): string {
  opened += 1
  return `case-${opened}`
}

/** Logs on one server that are closed together. */
export class OpenLogs {
  readonly #server: RedisServer
  readonly #options: Partial<RedisLogOptions>
  readonly #logs: TurnLog[] = []
  readonly prefix = freshPrefix()
  /** What the logs reported beside any call. */
  readonly reported: unknown[] = []

  constructor(server: RedisServer, options: Partial<RedisLogOptions> = {}) {
    this.#server = server
    this.#options = options
  }

  async open(): Promise<TurnLog> {
    const onError = (error: unknown) => this.reported.push(error)
    const own = { prefix: this.prefix, onError }
    const log = await openRedisLog({ ...own, ...this.#options, ...this.#server })
    this.#logs.push(log)
    return log
  }

  async close(): Promise<void> {
    await Promise.all(this.#logs.map((log) => log.close()))
  }
}

/** The clock of a server, in milliseconds. */
export async function timeOf(node: { host: string; port: number }): Promise<number> {
  const [seconds = '', micros = ''] = (await redisCommand(node, 'TIME')).match(/^\d+$/gm) ?? []
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000)
}

/** The log as the suite wants it; time in the store is the server's, and passes by itself. */
export async function underTest(
  server: RedisServer,
  retentionMs: number,
  now: () => Promise<number>,
): Promise<TurnLogUnderTest> {
  const logs = new OpenLogs(server, { retentionMs })
  const log = await logs.open()
  return {
    log,
    elapse: async (ms) => {
      const end = (await now()) + ms
      await until(async () => (await now()) > end)
    },
    another: () => logs.open(),
    reopen: async () => {
      await log.close()
      return logs.open()
    },
    dispose: async () => {
      await logs.close()
      if (logs.reported.length > 0) throw new AggregateError(logs.reported, 'errors were reported')
    },
  }
}

/** Waits until something holds; a test whose condition never does fails by its own limit. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 5))
}
