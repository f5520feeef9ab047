// A real Redis for tests, crash scripts and benchmarks: a private server, or a cluster of them, on
// 127.0.0.1.
//
//     const redis = await startRedis({ appendonly: 'always' })
//     await redisCommand(redis, 'SET', 'key', 'value')
//     await redis.stop()
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { findRedis } from './find-redis.mjs'

export { findRedis }

/**
 * `directory` is where the data is stored; the caller's is not removed. `args` are further
 * arguments of redis-server, such as `'--maxmemory', '1mb'`.
 * @typedef {object} RedisOptions
 * @property {string} [directory]
 * @property {'always' | 'everysec' | false} [appendonly]
 * @property {string[]} [args]
 * @property {number} [port]
 */
/** @typedef {{ host: string, port: number }} Address */
/** @typedef {import('node:child_process').ChildProcess} ChildProcess */

const HOST = '127.0.0.1'
const SLOTS = 16_384

// Time limits for what normally takes a fraction of a second, on a busy machine.
const START_LIMIT_MS = 30_000
const STOP_LIMIT_MS = 10_000
const CLUSTER_LIMIT_MS = 60_000

// Ports below the ephemeral range (from 32768 on Linux, from 49152 elsewhere), also for the bus of a cluster, which
// is 10000 above. So no other program is given the port of a server
// while it restarts.
const FIRST_PORT = 12_000
const PORTS = 10_000
const PORT_ATTEMPTS = 20

// It reads the server's process id, or an empty line when there is none, and waits for the end of its input, which
// comes when our process ends for any reason.
const GUARD = `
while read -r line; do pid=$line; done
[ -z "$pid" ] || kill -9 "$pid"
[ -z "$1" ] || rm -rf "$1"`

/** @type {import('./find-redis.mjs').Redis | undefined} */
let found

/**
 * Starts a server and waits until it accepts commands. Without `appendonly` nothing is persisted. It never outlives
 * this process, even after a crash or SIGKILL.
 * @param {RedisOptions} [options]
 */
export async function startRedis(options = {}) {
  const guard = new Guard(options.directory)
  // Only the server can claim its port without a race.
  for (let attempt = 1; ; attempt += 1) {
    const port = options.port ?? FIRST_PORT + Math.floor(Math.random() * PORTS)
    try {
      return await RedisServer.start(port, options, guard)
    } catch (error) {
      const isTaken = error instanceof Error && error.message.includes('Address already in use')
      if (isTaken && options.port === undefined && attempt < PORT_ATTEMPTS) continue
      guard.dismiss()
      throw error
    }
  }
}

/**
 * Starts masters that share all slots and waits until each of them knows it. Takes more than two seconds, the delay
 * of a new master.
 * @param {{ nodes?: number } & Omit<RedisOptions, 'port' | 'directory'>} [options]
 */
export async function startRedisCluster({ nodes: count = 3, ...options } = {}) {
  const cluster = ['--cluster-enabled', 'yes', '--cluster-announce-ip', HOST]
  const args = [...cluster, ...(options.args ?? [])]
  const starts = Array.from({ length: count }, () => startRedis({ ...options, args }))
  const results = await Promise.allSettled(starts)
  const nodes = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  const stop = async () => {
    await Promise.all(nodes.map((node) => node.stop()))
  }
  try {
    await Promise.all(starts)
    await joinCluster(nodes)
  } catch (error) {
    await stop()
    throw error
  }
  return { nodes, rootNodes: nodes.map(({ host, port }) => ({ host, port })), stop }
}

/** @param {RedisServer[]} nodes */
async function joinCluster(nodes) {
  const first = nodes[0]
  if (!first) throw new RangeError('a cluster has at least one node')
  for (const [index, node] of nodes.entries()) {
    const from = Math.ceil((SLOTS * index) / nodes.length)
    const end = Math.ceil((SLOTS * (index + 1)) / nodes.length)
    const slots = Array.from({ length: end - from }, (_, slot) => String(from + slot))
    await redisCommand(node, 'CLUSTER', 'ADDSLOTS', ...slots)
    // Nodes with the same epoch would first have to resolve the conflict.
    await redisCommand(node, 'CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1))
    if (node !== first) await redisCommand(first, 'CLUSTER', 'MEET', node.host, String(node.port))
  }
  const deadline = Date.now() + CLUSTER_LIMIT_MS
  for (const node of nodes) await settled(node, nodes.length, deadline)
}

/** @param {Address} node @param {number} count @param {number} deadline */
async function settled(node, count, deadline) {
  const expected = ['cluster_state:ok', `cluster_slots_ok:${SLOTS}`, `cluster_known_nodes:${count}`]
  for (;;) {
    const info = await redisCommand(node, 'CLUSTER', 'INFO')
    if (expected.every((line) => info.split('\r\n').includes(line))) return
    if (Date.now() > deadline) throw new Error(`the cluster of Redis did not form:\n${info}`)
    await delay(10)
  }
}

/**
 * Sends one command on a new connection. Returns a string, status or number as text, null as empty text and an array
 * unparsed. Throws errors of Redis.
 * @param {Address} address
 * @param {string[]} command
 */
export async function redisCommand({ host, port }, ...command) {
  const socket = connect({ host, port })
  // After QUIT the server closes the connection, which ends the reply.
  socket.write(encode(command) + encode(['QUIT']))
  let text = ''
  for await (const chunk of socket.setEncoding('utf8')) text += chunk
  if (!text.endsWith('+OK\r\n')) throw new Error(`Redis closed the connection after "${text}"`)
  const answer = text.slice(0, -'+OK\r\n'.length).replace(/\r\n$/, '')
  if (answer.startsWith('-')) throw new Error(answer.slice(1))
  if (answer.startsWith('*')) return answer
  return answer.startsWith('$') ? answer.replace(/^.*(\r\n)?/, '') : answer.slice(1)
}

/** @param {string[]} command */
function encode(command) {
  const parts = command.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`)
  return `*${parts.length}\r\n${parts.join('')}`
}

/** A private server, created by `startRedis`. */
class RedisServer {
  host = HOST
  /** @readonly @type {number} */
  port
  #args
  #guard
  /** @type {ChildProcess} */
  #child

  /** @param {number} port @param {string[]} args @param {Guard} guard @param {ChildProcess} child */
  constructor(port, args, guard, child) {
    this.port = port
    this.#args = args
    this.#guard = guard
    this.#child = child
  }

  /** @param {number} port @param {RedisOptions} options @param {Guard} guard */
  static async start(port, { appendonly = false, args = [] }, guard) {
    const isAppending = appendonly ? 'yes' : 'no'
    const all = ['--port', String(port), '--bind', HOST, '--dir', guard.directory, '--save', '']
    all.push('--appendonly', isAppending, '--appendfsync', appendonly || 'no', ...args)
    // Last, so that it takes precedence: the log shows when the server is ready.
    all.push('--daemonize', 'no', '--logfile', '', '--loglevel', 'notice')
    return new RedisServer(port, all, guard, await launch(all, guard))
  }

  get url() {
    return `redis://${this.host}:${this.port}`
  }

  get directory() {
    return this.#guard.directory
  }

  /** The running process; after a restart another one. */
  get process() {
    return this.#child
  }

  get pid() {
    // Undefined only if the process could not be started.
    return /** @type {number} */ (this.#child.pid)
  }

  /** Ends the server and removes its directory, unless that is the caller's. */
  async stop() {
    // No save: the data is deleted anyway.
    await end(this.#child, this.#guard.isOwner ? 'SIGKILL' : 'SIGTERM')
    this.#guard.dismiss()
  }

  /** SIGKILL; the directory stays, for a restart. */
  async kill() {
    await end(this.#child, 'SIGKILL')
  }

  /** Ends the server if it runs and starts it again, on the same port with the same directory. */
  async restart() {
    await end(this.#child, 'SIGTERM')
    this.#child = await launch(this.#args, this.#guard)
  }
}

/**
 * Cleans up after a server even if this process is killed: a shell in a separate session waits for our end. Only a
 * signal to that shell can leave a server behind.
 */
class Guard {
  /** @type {string} */
  directory
  /** Whether the directory is ours to remove. */
  isOwner
  #shell

  /** @param {string} [directory] */
  constructor(directory) {
    this.isOwner = directory === undefined
    this.directory = directory ?? mkdtempSync(join(tmpdir(), 'turnstream-redis-'))
    const args = ['-c', GUARD, 'sh', this.isOwner ? this.directory : '']
    this.#shell = spawn('/bin/sh', args, { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
    this.#shell.unref()
    const input = /** @type {import('node:net').Socket} */ (this.#shell.stdin)
    input.unref()
    // Writing to a killed shell must not end the tests.
    input.on('error', () => {})
  }

  /** @param {ChildProcess} child */
  watch(child) {
    this.#shell.stdin.write(`${child.pid ?? ''}\n`)
    // The process id may be reused soon.
    child.once('exit', () => this.#shell.stdin.write('\n'))
  }

  dismiss() {
    this.#shell.kill('SIGKILL')
    if (this.isOwner) rmSync(this.directory, { recursive: true, force: true })
  }
}

/** @param {string[]} args @param {Guard} guard @returns {Promise<ChildProcess>} */
async function launch(args, guard) {
  found ??= findRedis()
  const env = { ...process.env, ...found.env }
  const child = spawn(found.server, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  guard.watch(child)
  let output = ''
  const timer = setTimeout(() => child.kill('SIGKILL'), START_LIMIT_MS)
  await new Promise((resolve, reject) => {
    /** @param {Buffer} chunk */
    const read = (chunk) => {
      output = `${output}${chunk.toString()}`.slice(-4000)
      if (output.includes('Ready to accept connections')) resolve(undefined)
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    child.once('error', reject)
    // Not `exit`: the last output may still be buffered.
    child.once('close', () => reject(new Error(`redis-server did not start; it said:\n${output}`)))
  }).finally(() => clearTimeout(timer))
  return child
}

/** @param {ChildProcess} child @param {'SIGTERM' | 'SIGKILL'} signal */
async function end(child, signal) {
  if (child.exitCode !== null || child.signalCode !== null) return
  const isGone = once(child, 'exit')
  child.kill(signal)
  // A server suspended by SIGSTOP handles no other signal.
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT_MS)
  await isGone.finally(() => clearTimeout(timer))
}
