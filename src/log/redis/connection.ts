import type * as redis from '@redis/client'
import type { Clock } from '../../async/clock.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { storeError } from './failures.ts'
import type { RedisServer } from './options.ts'
import { Watch, type WatchedClient } from './watch.ts'

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
  /** How long connecting may take when the log is opened. */
  readonly limitMs: number
  /** How long a connection may be silent before it is replaced. */
  readonly silentAfterMs: number
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

export async function connect(server: RedisServer, told: Events): Promise<RedisConnection> {
  const client = await import('@redis/client')
  const events = reportingOnce(told)
  try {
    if ('cluster' in server) return await connectCluster(client, server.cluster, events)
    if ('sentinel' in server) return await connectSentinel(client, server.sentinel, events)
    const options = 'client' in server ? server.client : undefined
    return await connectSingle(client, options ?? urlOptions(server), events)
  } catch (error) {
    throw connectError(error)
  }
}

/** Both connections fail alike, again and again: each error is reported once until one is back. */
function reportingOnce(events: Events): Events {
  const reported = new Set<string>()
  return {
    ...events,
    onError: (error) => {
      const failure = storeError(error)
      if (reported.has(failure.message)) return
      reported.add(failure.message)
      events.onError(failure)
    },
    onReady: () => {
      reported.clear()
      events.onReady()
    },
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

/** Subscriptions by channel, to be made again on a new connection. */
type Subscriptions = Map<string, Listener>

function resubscribe(
  subscriptions: Subscriptions,
  subscribe: (channel: string, listener: Listener) => Promise<unknown>,
): Promise<unknown> {
  return Promise.all([...subscriptions].map(([channel, listener]) => subscribe(channel, listener)))
}

async function connectSingle(
  client: typeof redis,
  options: redis.RedisClientOptions,
  events: Events,
): Promise<RedisConnection> {
  const reconnection = new Reconnection()
  const subscriptions: Subscriptions = new Map()
  const create = (more: redis.RedisClientOptions): redis.RedisClientType => {
    const socket = { ...socketDefaults(reconnection, events), ...options.socket }
    // The client writes into the options that it is given, hence copies for each.
    const created: redis.RedisClientType = client.createClient({ ...options, ...more, socket })
    created.on('error', events.onError)
    return created
  }
  const createCommands = () => create(COMMANDS).on('reconnecting', events.onLost)
  let commands = createCommands()
  let hints = create({})
  try {
    await within(events, Promise.all([commands.connect(), hints.connect()]))
  } catch (error) {
    commands.destroy()
    hints.destroy()
    throw error
  }
  reconnection.opened()
  commands.on('ready', events.onReady)
  hints.on('ready', events.onReady)
  const watch = new Watch({
    clock: events.clock,
    limitMs: events.silentAfterMs,
    clients: () => [commands, hints],
    discard: (silent, reason) => {
      events.onError(reason)
      silent.destroy()
      if (silent === commands) {
        events.onLost()
        commands = createCommands().on('ready', events.onReady)
        commands.connect().catch(ignore)
      } else if (silent === hints) {
        const next = create({}).on('ready', events.onReady)
        hints = next
        next
          .connect()
          .then(() => resubscribe(subscriptions, (...each) => next.sSubscribe(...each)))
          .catch(ignore)
      }
    },
  })
  return {
    spansSlots: true,
    send: (_key, args) => commands.sendCommand(args),
    sendToAll: async (args) => [await commands.sendCommand(args)],
    subscribe: (channel, listener) => {
      subscriptions.set(channel, listener)
      return hints.sSubscribe(channel, listener)
    },
    unsubscribe: (channel, listener) => {
      subscriptions.delete(channel)
      return hints.sUnsubscribe(channel, listener)
    },
    close: async () => {
      watch.stop()
      hints.destroy()
      commands.destroy()
    },
  }
}

/** Whoever destroys a client is told by what it awaits, and connections are restored until then. */
function ignore(): void {}

// The socket timeout ends a handshake that gets no answer. After it, pings keep the socket busy: see `Watch`.
function socketDefaults(reconnection: Reconnection, { silentAfterMs }: Events) {
  return { reconnectStrategy: reconnection.strategy, socketTimeout: silentAfterMs }
}

async function connectCluster(
  client: typeof redis,
  options: redis.RedisClusterOptions,
  events: Events,
): Promise<RedisConnection> {
  const reconnection = new Reconnection()
  const subscriptions: Subscriptions = new Map()
  const socket = { ...socketDefaults(reconnection, events), ...options.defaults?.socket }
  const defaults = { ...options.defaults, ...COMMANDS, socket } as typeof options.defaults & {}
  const cluster = client.createCluster({ ...options, ...pick(COMMANDS), defaults })
  cluster.on('error', events.onError)
  cluster.on('node-error', events.onError)
  cluster.on('node-reconnecting', events.onLost)
  cluster.on('node-disconnect', events.onLost)
  cluster.on('sharded-channel-moved-error', events.onError)
  try {
    await within(events, cluster.connect())
  } catch (error) {
    cluster.destroy()
    throw error
  }
  reconnection.opened()
  cluster.on('node-ready', events.onReady)
  const watch = new Watch<WatchedClient & { destroy(): void }>({
    clock: events.clock,
    limitMs: events.silentAfterMs,
    clients: () =>
      cluster.masters
        .flatMap(({ client, pubSub }) => [client, pubSub?.client])
        .filter((each) => each !== undefined),
    discard: (silent, reason) => {
      events.onError(reason)
      silent.destroy()
      // The next command, or subscription, makes a new one.
      for (const node of cluster.masters) {
        if (node.client === silent) delete node.client
        if (node.pubSub?.client !== silent) continue
        delete node.pubSub
        resubscribe(subscriptions, (...each) => cluster.sSubscribe(...each)).catch(events.onError)
      }
    },
  })
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
    subscribe: (channel, listener) => {
      subscriptions.set(channel, listener)
      return cluster.sSubscribe(channel, listener)
    },
    unsubscribe: async (channel, listener) => {
      subscriptions.delete(channel)
      await cluster.sUnsubscribe(channel, listener)
    },
    close: async () => {
      watch.stop()
      cluster.destroy()
    },
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
  const reconnection = new Reconnection()
  reconnection.opened()
  const subscriptions: Subscriptions = new Map()
  const create = () => {
    const { commandOptions } = COMMANDS
    const passthroughClientErrorEvents = true
    const sentinel = client.createSentinel({
      ...options,
      commandOptions,
      passthroughClientErrorEvents,
      nodeClientOptions: pinging(options.nodeClientOptions, reconnection, events),
      sentinelClientOptions: pinging(options.sentinelClientOptions, reconnection, events),
    })
    sentinel.on('error', events.onError)
    sentinel.on('client-error', events.onLost)
    sentinel.on('topology-change', events.onLost)
    sentinel.on('topology-change', events.onReady)
    return { sentinel, watched: watchedSentinel(sentinel) }
  }
  let current = create()
  try {
    await within(events, current.sentinel.connect())
  } catch (error) {
    await current.sentinel.destroy()
    throw error
  }
  // Its connections cannot be reached one by one.
  const watch = new Watch({
    clock: events.clock,
    limitMs: events.silentAfterMs,
    clients: () => [current.watched],
    discard: (_silent, reason) => {
      events.onError(reason)
      current.sentinel.destroy().catch(ignore)
      events.onLost()
      const { sentinel } = (current = create())
      sentinel
        .connect()
        .then(() => resubscribe(subscriptions, (...each) => sentinel.sSubscribe(...each)))
        .then(events.onReady)
        .catch(ignore)
    },
  })
  return {
    spansSlots: true,
    send: (_key, args) => current.sentinel.sendCommand(false, args, { timeout: 0 }),
    sendToAll: async (args) => [await current.sentinel.sendCommand(false, args, { timeout: 0 })],
    subscribe: async (channel, listener) => {
      subscriptions.set(channel, listener)
      await current.sentinel.sSubscribe(channel, listener)
    },
    unsubscribe: async (channel, listener) => {
      subscriptions.delete(channel)
      await current.sentinel.sUnsubscribe(channel, listener)
    },
    close: async () => {
      watch.stop()
      await current.sentinel.destroy()
    },
  }
}

function watchedSentinel(sentinel: redis.RedisSentinelType): WatchedClient {
  return {
    get isReady() {
      return sentinel.isReady
    },
    sendCommand: (args, options) => sentinel.sendCommand(false, args, options),
    on: () => undefined, // its errors do not say which connection is meant
  }
}

/** Clients that find out by themselves that an idle connection is silent. */
function pinging(
  options: redis.RedisSentinelOptions['nodeClientOptions'],
  reconnection: Reconnection,
  events: Events,
) {
  const pingInterval = Math.ceil(events.silentAfterMs / 4)
  const socket = { ...socketDefaults(reconnection, events), ...options?.socket }
  return { pingInterval, ...options, socket }
}

/** The client has no time limit for a handshake, and a Sentinel client looks for a master for ever. */
async function within({ clock, limitMs }: Events, connected: Promise<unknown>): Promise<void> {
  await new Promise((resolve, reject) => {
    const cancel = clock.after(limitMs, () => {
      reject(new Error(`no connection within ${limitMs} ms`))
    })
    connected.then(resolve, reject).finally(cancel)
  })
}
