import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { type Clock, within } from '@turnstream/core/internal/async/clock'
import { asFields } from '@turnstream/core/internal/formats/fields'
import { hasCode, optionInvalid, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { PROVIDER } from './config.ts'
import { Connection, type Incoming, isForwarded, type Params } from './connection.ts'
import { workDirectory } from './home.ts'
import { LogLines } from './log-lines.ts'

export interface AppServerOptions {
  readonly binary: string
  readonly home: string
  readonly files: readonly string[]
  readonly args: readonly string[]
  /** The API that it must call; undefined if codex chooses it. */
  readonly baseUrl?: string | undefined
  /** Variables that the process gets beside `PATH`, `HOME` and `CODEX_HOME`. */
  readonly env: Readonly<Record<string, string>>
  readonly clock: Clock
  readonly requestTimeoutMs: number
  /** Called when the process sends output that does not name its thread. */
  readonly onUnaddressed?: () => void
  readonly onLog: (line: string) => void
}

export interface ThreadListener {
  /** Returns whether it answers the request, if the message is one. Others are refused at once. */
  onMessage(message: Incoming): boolean
  /** Nothing more follows: the process is gone, or its output cannot be attributed. */
  onFault(reason: TurnstreamError): void
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

const UNATTRIBUTED = new TurnstreamError(
  'UPSTREAM_MALFORMED',
  'codex did not say which turn its output belongs to. Try again',
)

/** An app-server exits within 60 ms of the end of its input. */
const EXIT_MS = 2000

/** One `codex app-server` process. Serves many threads at once; a thread belongs to one request. */
export class AppServer {
  readonly #child: ChildProcess
  readonly #connection: Connection
  readonly #options: AppServerOptions
  readonly #listeners = new Map<string, ThreadListener>()
  /** The thread that got output without a thread id. No other thread may get more of it. */
  #unaddressed: string | undefined
  #isHung = false
  /** Resolves with the reason when the process is gone. */
  readonly exited: Promise<TurnstreamError>
  /** Threads that were started: the process never frees all of their memory. */
  threads = 0
  active = 0

  private constructor(options: AppServerOptions) {
    const { binary, home, args, env, clock, onLog } = options
    this.#options = options
    const child = spawn(binary, ['app-server', ...args], {
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
        this.#failListeners(reason)
        resolve(reason)
      }
      child.once('error', (error) => exit(`could not start: ${error.message}`))
      child.once('exit', (code, signal) => exit(`exited with ${signal ?? `code ${code}`}`))
    })
  }

  /**
   * Starts a process and completes the handshake. Rejects if it does not answer in time, or if its configuration is not
   * ours: codex would use its defaults, and a system-wide one may take precedence.
   */
  static async start(options: AppServerOptions): Promise<AppServer> {
    const server = new AppServer(options)
    try {
      const capabilities = { experimentalApi: true, optOutNotificationMethods: OPT_OUT }
      await server.request('initialize', { clientInfo: CLIENT, capabilities })
      server.#connection.notify('initialized')
      checkModelProvider(await server.request('config/read', {}), options.baseUrl)
      return server
    } catch (error) {
      server.#child.kill('SIGKILL')
      await server.exited
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

  get fault(): string | undefined {
    if (this.#isHung) return 'codex does not answer'
    const isComplete = this.#options.files.every((file) => existsSync(file))
    return isComplete ? undefined : 'files of the home of codex are gone'
  }

  async request(method: string, params: Params): Promise<Params> {
    try {
      return await this.#connection.request(method, params)
    } catch (error) {
      if (hasCode(error, 'UPSTREAM_TIMEOUT')) this.#isHung = true
      throw error
    }
  }

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
    await within(this.exited, EXIT_MS, this.#options.clock, () => new Error('late')).catch(() => {
      this.#child.kill('SIGKILL')
    })
    await this.exited
  }

  #route(message: Incoming): boolean {
    const { threadId } = message.params
    if (typeof threadId === 'string') {
      return this.#listeners.get(threadId)?.onMessage(message) ?? false
    }
    if (isForwarded(message.method)) this.#routeUnaddressed(message)
    return false
  }

  /** Belongs to the only thread of the process. With several, none may get what is another's. */
  #routeUnaddressed(message: Incoming): void {
    this.#options.onUnaddressed?.()
    const [[threadId, listener] = []] = this.#listeners
    this.#unaddressed ??= threadId
    const isOnly = this.#listeners.size === 1 && threadId === this.#unaddressed
    if (isOnly) listener?.onMessage(message)
    else this.#failListeners(UNATTRIBUTED)
  }

  #failListeners(reason: TurnstreamError): void {
    for (const listener of this.#listeners.values()) listener.onFault(reason)
    this.#listeners.clear()
  }
}

function checkModelProvider({ config }: Params, baseUrl: string | undefined): void {
  const { model_provider, model_providers } = asFields(config)
  const { base_url } = asFields(asFields(model_providers)[PROVIDER])
  if (model_provider === PROVIDER && (base_url ?? undefined) === baseUrl) return
  // The message has no address: clients read it.
  throw optionInvalid(
    'codex would call another API than the configured one. Remove the system-wide configuration of codex',
  )
}
