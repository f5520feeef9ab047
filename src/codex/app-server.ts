import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { type Clock, pause } from '../async/clock.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import { Connection, type Incoming, type Params } from './connection.ts'
import { workDirectory } from './home.ts'
import { LogLines } from './log-lines.ts'

export interface AppServerOptions {
  readonly binary: string
  /** `CODEX_HOME`. */
  readonly home: string
  /** Variables that the process gets beside `PATH`, `HOME` and `CODEX_HOME`. */
  readonly env: Readonly<Record<string, string>>
  readonly clock: Clock
  readonly requestTimeoutMs: number
  /** Called with each line that the process logs, without secrets. */
  readonly onLog: (line: string) => void
}

/** Reads one thread. `onExit` is called once, when the process is gone. */
export interface ThreadListener {
  /** Returns whether it answers the request, if the message is one. Others are refused at once. */
  onMessage(message: Incoming): boolean
  onExit(reason: TurnstreamError): void
}

/** Notifications that no thread needs. */
const OPT_OUT = [
  'account/rateLimits/updated',
  'configWarning',
  'remoteControl/status/changed',
  'thread/readState/changed',
  'thread/started',
  'thread/status/changed',
  'thread/settings/updated',
  // Repeats all changes of the turn with each one.
  'turn/diff/updated',
  'item/fileChange/patchUpdated',
]
const CLIENT = { name: 'turnstream', title: null, version: '1' }

/** An app-server exits within 60 ms of the end of its input. */
const EXIT_MS = 2000

/** One `codex app-server` process. Serves many threads at once; a thread belongs to one request. */
export class AppServer {
  readonly #child: ChildProcess
  readonly #connection: Connection
  readonly #clock: Clock
  readonly #listeners = new Map<string, ThreadListener>()
  /** Resolves with the reason when the process is gone. */
  readonly exited: Promise<TurnstreamError>
  /** Threads that were started: the process never frees all of their memory. */
  threads = 0
  /** Requests that use this process now. */
  active = 0

  private constructor(options: AppServerOptions) {
    const { binary, home, env, clock, onLog } = options
    this.#clock = clock
    const child = spawn(binary, ['app-server'], {
      cwd: workDirectory(home),
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...env, HOME: home, CODEX_HOME: home, RUST_LOG: 'error', LANG: 'C.UTF-8' },
    })
    this.#child = child
    this.#connection = new Connection(child.stdout, child.stdin, {
      clock,
      requestTimeoutMs: options.requestTimeoutMs,
      onMessage: (message) => this.#route(message),
      onFault: (error) => {
        onLog(`unreadable output: ${error.message}`)
        child.kill('SIGKILL')
      },
    })
    const log = new LogLines(onLog)
    child.stderr.on('data', (chunk: Uint8Array) => log.feed(chunk))
    child.stderr.on('end', () => log.end())
    this.exited = new Promise((resolve) => {
      const exit = (how: string): void => {
        const reason = new TurnstreamError('UPSTREAM_TRUNCATED', `codex app-server ${how}`)
        this.#connection.close(reason)
        for (const listener of this.#listeners.values()) listener.onExit(reason)
        this.#listeners.clear()
        resolve(reason)
      }
      child.once('error', (error) => exit(`could not start: ${error.message}`))
      child.once('exit', (code, signal) => exit(`exited with ${signal ?? `code ${code}`}`))
    })
  }

  /** Starts a process and completes the handshake. Rejects if it does not answer in time. */
  static async start(options: AppServerOptions): Promise<AppServer> {
    const server = new AppServer(options)
    try {
      const capabilities = { experimentalApi: true, optOutNotificationMethods: OPT_OUT }
      await server.request('initialize', { clientInfo: CLIENT, capabilities })
      server.#connection.notify('initialized')
      return server
    } catch (error) {
      server.#child.kill('SIGKILL')
      throw error
    }
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** Resident memory in bytes; undefined where the system does not tell. */
  get residentBytes(): number | undefined {
    try {
      const status = readFileSync(`/proc/${this.#child.pid}/status`, 'utf8')
      const [, kilobytes] = /^VmRSS:\s+(\d+) kB/m.exec(status) ?? []
      return kilobytes === undefined ? undefined : Number(kilobytes) * 1024
    } catch {
      return undefined
    }
  }

  request(method: string, params: Params): Promise<Params> {
    return this.#connection.request(method, params)
  }

  /** Answers a request of the app-server that a listener took. */
  respond(id: string | number, result: Params): void {
    this.#connection.respond(id, result)
  }

  /** Passes the messages of a thread on, until the returned function is called. */
  listen(threadId: string, listener: ThreadListener): () => void {
    this.#listeners.set(threadId, listener)
    return () => this.#listeners.delete(threadId)
  }

  /** Ends the process: its input first, then by force. */
  async close(): Promise<void> {
    this.#child.stdin?.end()
    const waiting = new AbortController()
    void this.exited.then(() => waiting.abort())
    await pause(EXIT_MS, this.#clock, waiting.signal)
    if (!waiting.signal.aborted) this.#child.kill('SIGKILL')
    await this.exited
  }

  #route(message: Incoming): boolean {
    const { threadId } = message.params
    const listener = typeof threadId === 'string' ? this.#listeners.get(threadId) : undefined
    return listener?.onMessage(message) ?? false
  }
}
