import type * as redis from '@redis/client'
import type { Clock } from '../../async/clock.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { storeError } from './failures.ts'
import type { RedisServer } from './options.ts'

export type Listener = () => void

/** The connections of a log: one for commands and one for hints, to each node that is used. */
export interface RedisConnection {
  /** Whether one command may have keys of several slots. */
  readonly spansSlots: boolean
  /** Sends a command to the node that has the key. What is sent in the same tick goes out together. */
  send(key: string, args: string[]): Promise<unknown>
  /** Sends a command to every master. */
  sendToAll(args: string[]): Promise<unknown[]>
  subscribe(channel: string, listener: Listener): Promise<void>
  unsubscribe(channel: string, listener: Listener): Promise<void>
  close(): Promise<void>
}

interface Events {
  readonly clock: Clock
  /** How long to look for a master that no Sentinel knows. */
  readonly limitMs: number
  readonly onError: (error: unknown) => void
  /** A connection is back: hints may have been missed. */
  readonly onReady: () => void
  /** A connection is lost. What answers next may have lost its newest records. */
  readonly onLost: () => void
}

// The client makes an AbortSignal for the time limit of each command, which costs four times as much as
// all the rest; the limit of a call is kept by `Calls`. What is sent while the connection is away is
// refused at once, so that nothing is sent in another order than it was called in.
const COMMANDS = { disableOfflineQueue: true, commandOptions: { timeout: 0 } } as const

const MAX_RECONNECT_MS = 1000

export async function connect(server: RedisServer, events: Events): Promise<RedisConnection> {
  const client = await import('@redis/client')
  try {
    if ('cluster' in server) return await connectCluster(client, server.cluster, events)
    if ('sentinel' in server) return await connectSentinel(client, server.sentinel, events)
    const options = 'client' in server ? server.client : undefined
    return await connectSingle(client, options ?? urlOptions(server), events)
  } catch (error) {
    throw connectError(error)
  }
}

function urlOptions(server: RedisServer): redis.RedisClientOptions {
  return 'url' in server && server.url !== undefined ? { url: server.url } : {}
}

function connectError(error: unknown): TurnstreamError {
  // What the client says of a URL that it cannot use quotes the URL, and with it the password.
  if (error instanceof TypeError) {
    return new TurnstreamError('OPTION_INVALID', 'the address of the server cannot be used')
  }
  return storeError(error)
}

/** Gives up at once while the log is being opened, and never after that. */
class Reconnection {
  #opened = false
  readonly strategy = (retries: number, cause: Error): number | Error => {
    if (!this.#opened) return cause
    return Math.min(2 ** Math.min(retries, 10) * 20, MAX_RECONNECT_MS) * (0.5 + Math.random() / 2)
  }

  opened(): void {
    this.#opened = true
  }
}

async function connectSingle(
  client: typeof redis,
  options: redis.RedisClientOptions,
  events: Events,
): Promise<RedisConnection> {
  const reconnection = new Reconnection()
  // The client writes into the options that it is given, hence copies for each.
  const copied = (more: redis.RedisClientOptions): redis.RedisClientOptions => {
    const socket = { reconnectStrategy: reconnection.strategy, ...options.socket }
    return { ...options, ...more, socket }
  }
  const commands = client.createClient(copied(COMMANDS))
  const hints = client.createClient(copied({}))
  commands.on('error', events.onError)
  commands.on('reconnecting', events.onLost)
  hints.on('error', events.onError)
  try {
    await Promise.all([commands.connect(), hints.connect()])
  } catch (error) {
    commands.destroy()
    hints.destroy()
    throw error
  }
  reconnection.opened()
  hints.on('ready', events.onReady)
  return {
    spansSlots: true,
    send: (_key, args) => commands.sendCommand(args),
    sendToAll: async (args) => [await commands.sendCommand(args)],
    subscribe: (channel, listener) => hints.sSubscribe(channel, listener),
    unsubscribe: (channel, listener) => hints.sUnsubscribe(channel, listener),
    close: async () => {
      hints.destroy()
      if (commands.isReady) await commands.close()
      else commands.destroy()
    },
  }
}

async function connectCluster(
  client: typeof redis,
  options: redis.RedisClusterOptions,
  events: Events,
): Promise<RedisConnection> {
  const reconnection = new Reconnection()
  const socket = { reconnectStrategy: reconnection.strategy, ...options.defaults?.socket }
  const defaults = { ...options.defaults, ...COMMANDS, socket } as typeof options.defaults & {}
  const cluster = client.createCluster({ ...options, ...pick(COMMANDS), defaults })
  cluster.on('error', events.onError)
  cluster.on('node-error', events.onError)
  cluster.on('node-reconnecting', events.onLost)
  cluster.on('node-disconnect', events.onLost)
  cluster.on('sharded-channel-moved-error', events.onError)
  try {
    await cluster.connect()
  } catch (error) {
    cluster.destroy()
    throw error
  }
  reconnection.opened()
  cluster.on('node-ready', events.onReady)
  return {
    spansSlots: false,
    send: (key, args) => cluster.sendCommand(key, false, args, { timeout: 0 }),
    sendToAll: (args) =>
      Promise.all(
        cluster.masters.map(async (node) => {
          const master = await cluster.nodeClient(node)
          return master.sendCommand(args)
        }),
      ),
    subscribe: (channel, listener) => cluster.sSubscribe(channel, listener),
    unsubscribe: async (channel, listener) => {
      await cluster.sUnsubscribe(channel, listener)
    },
    close: () => cluster.close(),
  }
}

function pick({ commandOptions }: typeof COMMANDS) {
  return { commandOptions }
}

async function connectSentinel(
  client: typeof redis,
  options: redis.RedisSentinelOptions,
  events: Events,
): Promise<RedisConnection> {
  const { commandOptions } = COMMANDS
  const sentinel = client.createSentinel({
    ...options,
    commandOptions,
    passthroughClientErrorEvents: true,
  })
  sentinel.on('error', events.onError)
  sentinel.on('client-error', events.onError)
  sentinel.on('client-error', events.onLost)
  sentinel.on('topology-change', events.onLost)
  sentinel.on('topology-change', events.onReady)
  try {
    await within(events, sentinel.connect())
  } catch (error) {
    await sentinel.destroy()
    throw error
  }
  return {
    spansSlots: true,
    send: (_key, args) => sentinel.sendCommand(false, args, { timeout: 0 }),
    sendToAll: async (args) => [await sentinel.sendCommand(false, args, { timeout: 0 })],
    subscribe: async (channel, listener) => {
      await sentinel.sSubscribe(channel, listener)
    },
    unsubscribe: async (channel, listener) => {
      await sentinel.sUnsubscribe(channel, listener)
    },
    close: () => sentinel.close(),
  }
}

/** Other than a client, one for Sentinel looks for a master for ever. */
async function within({ clock, limitMs }: Events, connected: Promise<unknown>): Promise<void> {
  await new Promise((resolve, reject) => {
    const cancel = clock.after(limitMs, () => reject(new Error('no Sentinel knows a master')))
    connected.then(resolve, reject).finally(cancel)
  })
}
