import type * as redis from '@redis/client'
import { type Clock, within } from '@turnstream/core/internal/async/clock'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { RedisServer } from './open.ts'
import { storeError } from './replies.ts'

export type Listener = () => void

/** The connections of a log: one for commands and one for notifications, per node. */
export interface RedisConnection {
  /** Whether one command may have keys in several slots. */
  readonly spansSlots: boolean
  /** Sends a command to the node of the key. Commands of the same tick are pipelined. */
  send(key: string, args: string[]): Promise<unknown>
  sendToAll(args: string[]): Promise<unknown[]>
  subscribe(channel: string, listener: Listener): Promise<unknown>
  unsubscribe(channel: string, listener: Listener): Promise<unknown>
  close(): Promise<void>
}

/** Connections to one kind of server, without the shared parts. */
interface Link extends RedisConnection {
  /** A new array of the current connections. */
  clients(): readonly WatchedClient[]
  /** Replaces a destroyed connection, with its subscriptions. */
  replace(client: WatchedClient, resubscribe: () => Promise<unknown>): void
}

interface Events {
  readonly clock: Clock
  /** Connect timeout when the log is opened. */
  readonly limitMs: number
  /** How long a connection may be silent before it is replaced. */
  readonly silentAfterMs: number
  readonly onError: (error: unknown) => void
  /** A connection was restored: notifications may have been missed. */
  readonly onReady: () => void
  /** A connection was lost. The next server may lack the newest records. */
  readonly onLost: () => void
}

// The client creates an AbortSignal per command for its timeout, at four times the cost of the rest; `RedisClient`
// enforces call timeouts instead. Commands without a connection fail at once, so that nothing is reordered.
const NO_TIMEOUT = { timeout: 0 } as const
const COMMANDS = { disableOfflineQueue: true, commandOptions: NO_TIMEOUT } as const

const MAX_RECONNECT_MS = 1000

export async function connect(server: RedisServer, options: Events): Promise<RedisConnection> {
  const client = await import('@redis/client')
  const events = reportOnce(options)
  const link = await openLink(client, server, events).catch((error: unknown) => {
    // The client's message about an invalid URL quotes the URL, including the password.
    if (error instanceof TypeError) {
      throw new TurnstreamError('OPTION_INVALID', 'invalid server URL')
    }
    throw storeError(error)
  })
  const subscriptions = new Map<string, Listener>()
  const resubscribe = () =>
    Promise.all([...subscriptions].map(([channel, listener]) => link.subscribe(channel, listener)))
  const stopWatching = watch(link, events, resubscribe)
  return {
    ...link,
    subscribe: (channel, listener) => {
      subscriptions.set(channel, listener)
      return link.subscribe(channel, listener)
    },
    unsubscribe: (channel, listener) => {
      subscriptions.delete(channel)
      return link.unsubscribe(channel, listener)
    },
    close: () => {
      stopWatching()
      return link.close()
    },
  }
}

async function openLink(client: typeof redis, server: RedisServer, events: Events): Promise<Link> {
  if ('cluster' in server) return connectCluster(client, server.cluster, events)
  if ('sentinel' in server) return connectSentinel(client, server.sentinel, events)
  const { client: options, url } = { client: undefined, url: undefined, ...server }
  return connectSingle(client, options ?? (url === undefined ? {} : { url }), events)
}

/** Both connections fail repeatedly in the same way: reports each error once until one is restored. */
function reportOnce(events: Events): Events {
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

async function connectSingle(
  client: typeof redis,
  options: redis.RedisClientOptions,
  events: Events,
): Promise<Link> {
  const opening = { isDone: false }
  // `createClient` builds a class with every Redis command, for 30 ms, whenever the options change.
  const createClient = client.RedisClient.factory(options)
  const create = (more: redis.RedisClientOptions): redis.RedisClientType => {
    const socket = { ...socketDefaults(opening, events), ...options.socket }
    // The client modifies its options, so each gets a copy.
    const created: redis.RedisClientType = createClient({ ...options, ...more, socket })
    return created.on('error', events.onError)
  }
  const createCommands = () => create(COMMANDS).on('reconnecting', events.onLost)
  let commands = createCommands()
  let notifications = create({})
  await opened(Promise.all([commands.connect(), notifications.connect()]), events, () => {
    commands.destroy()
    notifications.destroy()
  })
  opening.isDone = true
  commands.on('ready', events.onReady)
  notifications.on('ready', events.onReady)
  return {
    spansSlots: true,
    send: (_key, args) => commands.sendCommand(args),
    sendToAll: async (args) => [await commands.sendCommand(args)],
    subscribe: (channel, listener) => notifications.sSubscribe(channel, listener),
    unsubscribe: (channel, listener) => notifications.sUnsubscribe(channel, listener),
    clients: () => [commands, notifications],
    replace: (silent, resubscribe) => {
      if (silent === commands) {
        events.onLost()
        commands = createCommands().on('ready', events.onReady)
        commands.connect().catch(ignore)
      } else if (silent === notifications) {
        notifications = create({}).on('ready', events.onReady)
        notifications.connect().then(resubscribe).catch(ignore)
      }
    },
    close: async () => {
      notifications.destroy()
      commands.destroy()
    },
  }
}

/** The caller of a destroyed client gets its error, and other connections are restored. */
function ignore(): void {}

/** A connection failure is final while the log is being opened; later it is retried forever. */
function socketDefaults(opening: { readonly isDone: boolean }, { silentAfterMs }: Events) {
  const reconnectStrategy = (retries: number, cause: Error) => {
    if (!opening.isDone) return cause
    return Math.min(2 ** Math.min(retries, 10) * 20, MAX_RECONNECT_MS) * (0.5 + Math.random() / 2)
  }
  // The timeout ends a handshake without a reply. After it, pings keep the socket busy: see `watch`.
  return { reconnectStrategy, socketTimeout: silentAfterMs }
}

async function connectCluster(
  client: typeof redis,
  options: redis.RedisClusterOptions,
  events: Events,
): Promise<Link> {
  const opening = { isDone: false }
  const socket = { ...socketDefaults(opening, events), ...options.defaults?.socket }
  const defaults = { ...options.defaults, ...COMMANDS, socket } as typeof options.defaults & {}
  const cluster = client.createCluster({ ...options, commandOptions: NO_TIMEOUT, defaults })
  cluster.on('error', events.onError)
  cluster.on('node-error', events.onError)
  cluster.on('node-reconnecting', events.onLost)
  cluster.on('node-disconnect', events.onLost)
  cluster.on('sharded-channel-moved-error', events.onError)
  await opened(cluster.connect(), events, () => cluster.destroy())
  opening.isDone = true
  cluster.on('node-ready', events.onReady)
  return {
    spansSlots: false,
    send: (key, args) => cluster.sendCommand(key, false, args, NO_TIMEOUT),
    sendToAll: (args) =>
      Promise.all(
        cluster.masters.map(async (node) => {
          const master = await cluster.nodeClient(node)
          return master.sendCommand(args)
        }),
      ),
    subscribe: (channel, listener) => cluster.sSubscribe(channel, listener),
    unsubscribe: (channel, listener) => cluster.sUnsubscribe(channel, listener),
    clients: () =>
      cluster.masters
        .flatMap(({ client, pubSub }) => [client, pubSub?.client])
        .filter((each) => each !== undefined),
    // The next command or subscription creates a new one.
    replace: (silent, resubscribe) => {
      for (const node of cluster.masters) {
        if (node.client === silent) delete node.client
        if (node.pubSub?.client !== silent) continue
        delete node.pubSub
        resubscribe().catch(events.onError)
      }
    },
    close: async () => cluster.destroy(),
  }
}

async function connectSentinel(
  client: typeof redis,
  options: redis.RedisSentinelOptions,
  events: Events,
): Promise<Link> {
  const create = () => {
    const sentinel = client.createSentinel({
      ...options,
      commandOptions: NO_TIMEOUT,
      passthroughClientErrorEvents: true,
      nodeClientOptions: pinging(options.nodeClientOptions, events),
      sentinelClientOptions: pinging(options.sentinelClientOptions, events),
    })
    sentinel.on('error', events.onError)
    sentinel.on('client-error', events.onLost)
    sentinel.on('topology-change', events.onLost)
    sentinel.on('topology-change', events.onReady)
    const watched: WatchedClient = {
      get isReady() {
        return sentinel.isReady
      },
      sendCommand: (args, options) => sentinel.sendCommand(false, args, options),
      destroy: () => void sentinel.destroy().catch(ignore),
      on: () => undefined, // its errors do not name the connection
    }
    return { sentinel, watched }
  }
  let current = create()
  await opened(current.sentinel.connect(), events, () => current.sentinel.destroy())
  const send = (args: string[]) => current.sentinel.sendCommand(false, args, NO_TIMEOUT)
  return {
    spansSlots: true,
    send: (_key, args) => send(args),
    sendToAll: async (args) => [await send(args)],
    subscribe: (channel, listener) => current.sentinel.sSubscribe(channel, listener),
    unsubscribe: (channel, listener) => current.sentinel.sUnsubscribe(channel, listener),
    // Its connections cannot be accessed individually.
    clients: () => [current.watched],
    replace: (_silent, resubscribe) => {
      events.onLost()
      current = create()
      current.sentinel.connect().then(resubscribe).then(events.onReady).catch(ignore)
    },
    close: () => current.sentinel.destroy(),
  }
}

/** Clients that detect a silent idle connection themselves. */
function pinging(options: redis.RedisSentinelOptions['nodeClientOptions'], events: Events) {
  const pingInterval = Math.ceil(events.silentAfterMs / 4)
  const socket = { ...socketDefaults({ isDone: true }, events), ...options?.socket }
  return { pingInterval, ...options, socket }
}

/** Waits for the first connection: the client has no handshake timeout, and Sentinel looks for a master forever. */
async function opened(
  connecting: Promise<unknown>,
  { clock, limitMs }: Events,
  destroy: () => unknown,
): Promise<void> {
  const toError = () => new Error(`no connection within ${limitMs} ms`)
  try {
    await within(connecting, limitMs, clock, toError)
  } catch (error) {
    await destroy()
    throw error
  }
}

/** The part of a `@redis/client` connection in use here. */
interface WatchedClient {
  readonly isReady: boolean
  sendCommand(args: string[], options: { readonly timeout: number }): Promise<unknown>
  on(event: 'error', listener: (error: unknown) => void): unknown
  destroy(): void
}

/** Ticks that a ping may be unanswered. Ticks, not time: a blocked event loop is not the server's fault. */
const TICKS = 4

interface Watched {
  /** Ticks since the ping was sent; undefined if none is in flight. */
  waitedTicks: number | undefined
  isDiscarded: boolean
}

/**
 * Pings every connection and replaces those that are silent or break the protocol, until the returned function is
 * called. In the client, every write resets the socket timeout, and replies after a malformed one may go to the wrong
 * commands.
 */
function watch(
  link: Link,
  { clock, silentAfterMs, onError }: Events,
  resubscribe: () => Promise<unknown>,
): () => void {
  const clients = new WeakMap<WatchedClient, Watched>()

  function add(client: WatchedClient): Watched {
    const watched: Watched = { waitedTicks: undefined, isDiscarded: false }
    clients.set(client, watched)
    // When its error is reported, a lost connection is not ready, but one that sent garbage is.
    client.on('error', (cause) => {
      if (client.isReady) discard(client, watched, new Error('Redis broke the protocol', { cause }))
    })
    return watched
  }

  function discard(client: WatchedClient, watched: Watched, reason: Error): void {
    if (watched.isDiscarded) return
    watched.isDiscarded = true
    onError(reason)
    client.destroy()
    link.replace(client, resubscribe)
    for (const each of link.clients()) if (!clients.has(each)) add(each)
  }

  function check(client: WatchedClient): void {
    const watched = clients.get(client) ?? add(client)
    if (watched.waitedTicks !== undefined) {
      watched.waitedTicks += 1
      if (watched.waitedTicks < TICKS) return
      discard(client, watched, new Error(`Redis did not reply for ${silentAfterMs} ms`))
    } else if (client.isReady) void ping(client, watched)
  }

  async function ping(client: WatchedClient, watched: Watched): Promise<void> {
    watched.waitedTicks = 0
    try {
      const reply = String(await client.sendCommand(['PING'], NO_TIMEOUT))
      if (reply.toUpperCase() !== 'PONG') {
        discard(client, watched, new Error('Redis sent an unexpected reply to a ping'))
      }
    } catch {
      // An error is a reply, and the client restores a lost connection.
    }
    watched.waitedTicks = undefined
  }

  let cancelTick: () => void
  const tickLater = () => {
    cancelTick = clock.after(silentAfterMs / TICKS, () => {
      tickLater()
      for (const client of link.clients()) check(client)
    })
  }
  for (const client of link.clients()) add(client)
  tickLater()
  return () => cancelTick()
}
