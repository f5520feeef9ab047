import { createHash } from 'node:crypto'
import type { CallToolResult, Client, ListToolsResult } from '@modelcontextprotocol/client'
import { CallSlots } from '@turnstream/core/internal/async/call-slots'
import { type Clock, monotonicNow, pause, systemClock } from '@turnstream/core/internal/async/clock'
import { Deferred } from '@turnstream/core/internal/async/deferred'
import { calculateRetryDelay } from '@turnstream/core/internal/async/retry'
import { optionInvalid } from '@turnstream/core/internal/protocol/errors'
import { withoutUndefined } from '@turnstream/core/internal/protocol/json'
import { findSchemaFault } from '../turns/tool-schema.ts'
import type { ToolSource } from '../turns/tool-sources.ts'
import type { Tool, ToolCallContext } from '../turns/tools.ts'
import { hideValues, MCP_NAME, resolveToolLimits, type ToolLimits } from './limits.ts'
import {
  createMcpClient,
  loadMcpPackage,
  type McpPackage,
  STREAM_ENDED,
  textOf,
} from './mcp-client.ts'
import type { McpServer } from './mcp-server.ts'

export interface McpToolsOptions extends ToolLimits {
  /** Stands before the names of the server's tools: `files__read_file`. */
  readonly name: string
  readonly server: McpServer
  /** Whether a client must approve each call. Default false. */
  readonly needsApproval?: boolean
  /** Where to look for the MCP client if it is not installed beside this package. */
  readonly packageFolder?: string
  readonly clock?: Clock
  /** Called when the connection is made or lost, and for tools that cannot be used. */
  readonly onLog?: (message: string) => void
  /** Called for what a local server writes to standard error. May repeat arguments of calls. */
  readonly onStderr?: (line: string) => void
}

/** The tools of an MCP server, while it is connected. */
export interface McpTools extends ToolSource {
  /** Ends the connection, and the process of a local server. */
  close(): Promise<void>
}

const RETRY_BASE_MS = 500
const RETRY_MAX_MS = 30_000
/** A connection that lasted this long was healthy: the next retry is soon. */
const STABLE_MS = 10_000
/** How long a start waits for the first list of tools. */
const FIRST_LIST_MS = 10_000
const LIST_MS = 10_000
/** The timeout of the turn comes first. */
const CALL_MARGIN_MS = 5000

export const MAX_TOOLS = 128
const MAX_DESCRIPTION_CHARS = 4096
const MAX_SCHEMA_CHARS = 65_536
const MAX_REASON_CHARS = 500

/**
 * Connects to an MCP server and lists its tools. A server that is down is retried with increasing delays, and its tools
 * appear when it is up; its failures are failed calls. Resolves after the first attempt, or after ten seconds.
 * OPTION_INVALID if an option is invalid or the MCP client is not installed.
 */
export async function connectMcpTools(options: McpToolsOptions): Promise<McpTools> {
  if (!MCP_NAME.test(options.name)) {
    throw optionInvalid(`name ${JSON.stringify(options.name)} of an MCP server is not usable`)
  }
  const connection = new McpConnection(options, await loadMcpPackage(options.packageFolder))
  await connection.firstAttempt
  return connection
}

class McpConnection implements McpTools {
  readonly name: string
  tools: readonly Tool[] = []
  readonly firstAttempt: Promise<void>
  readonly #options: McpToolsOptions
  readonly #package: McpPackage
  readonly #limits: ReturnType<typeof resolveToolLimits>
  readonly #hide: (text: string) => string
  readonly #clock: Clock
  readonly #slots: CallSlots
  readonly #closing = new AbortController()
  readonly #ended: Promise<void>
  /** The connection, once its tools are listed. */
  #client: Client | undefined
  /** One list at a time, whatever the server announces. */
  #isListing = false
  #isListDue = false
  readonly #attempted = new Deferred()
  #endSession: (reason: string) => void = () => {}

  constructor(options: McpToolsOptions, mcp: McpPackage) {
    const { name, clock = systemClock, secrets = [], server } = options
    this.name = name
    this.#options = options
    this.#limits = resolveToolLimits(options)
    this.#hide = hideValues(secrets, 'url' in server ? server.headers : {})
    this.#package = mcp
    this.#clock = clock
    this.#slots = new CallSlots(this.#limits.maxParallelCalls)
    const { promise, resolve } = this.#attempted
    this.firstAttempt = promise.finally(clock.after(FIRST_LIST_MS, resolve))
    this.#ended = this.#stayConnected()
  }

  get isConnected(): boolean {
    return this.#client !== undefined
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#endSession('closed')
    await this.#ended
  }

  async #stayConnected(): Promise<void> {
    const { signal } = this.#closing
    let failures = 0
    while (!signal.aborted) {
      const since = monotonicNow(this.#clock)
      const reason = await this.#session()
      this.#attempted.resolve()
      if (signal.aborted) return
      if (monotonicNow(this.#clock) - since >= STABLE_MS) failures = 0
      const delay = calculateRetryDelay(failures++, RETRY_BASE_MS, RETRY_MAX_MS)
      this.#log(`${reason}; next attempt in ${delay} ms`)
      await pause(delay, this.#clock, signal)
    }
  }

  /** Connects and lists the tools. Returns why the connection could not be made, or why it ended. */
  async #session(): Promise<string> {
    const { promise: ended, resolve } = new Deferred<string>()
    this.#endSession = resolve
    const stderr = new StderrLines((line) => this.#options.onStderr?.(line))
    const { client, connect } = createMcpClient({
      server: this.#options.server,
      package: this.#package,
      onDoubt: () => void this.#listAgain(client),
      onClose: () => this.#endSession('the connection closed'),
      onStderr: (text) => stderr.add(text),
    })
    try {
      const failed = await Promise.race([connect().then(() => this.#list(client)), ended])
      if (failed !== undefined) return stderr.explain(failed)
      this.#client = client
      this.#log(`connected, with ${this.tools.length} tools`)
      this.#attempted.resolve()
      // What it wrote since may repeat what users said.
      return await ended
    } catch (error) {
      return stderr.explain(`cannot connect: ${reasonOf(error)}`)
    } finally {
      this.#client = undefined
      await client.close().catch(() => {}) // it is gone
    }
  }

  async #list(client: Client): Promise<undefined> {
    const { tools } = await client.listTools(undefined, { timeout: LIST_MS })
    this.tools = this.#usable(tools)
  }

  /** The tools have changed, or it is doubtful whether the server answers. If it does not, the connection ends. */
  async #listAgain(client: Client): Promise<void> {
    this.#isListDue = true
    if (this.#client !== client || this.#isListing) return
    this.#isListing = true
    try {
      while (this.#isListDue && this.#client === client) {
        this.#isListDue = false
        await this.#list(client)
      }
    } catch (error) {
      if (this.#client === client) this.#endSession(`no response: ${reasonOf(error)}`)
    } finally {
      this.#isListing = false
    }
  }

  #usable(listed: readonly ListedTool[]): Tool[] {
    const byName = new Map<string, Tool>()
    for (const each of listed.slice(0, MAX_TOOLS)) {
      const name = toolName(this.name, each.name)
      const fault = byName.has(name) ? 'duplicate name' : faultOf(each)
      if (fault === undefined) byName.set(name, this.#tool(name, each))
      else this.#log(`the tool ${each.name.slice(0, 64)} cannot be used: ${fault}`)
    }
    if (listed.length > MAX_TOOLS) this.#log(`only ${MAX_TOOLS} of ${listed.length} tools are used`)
    return [...byName.values()]
  }

  #tool(name: string, { name: ownName, description, inputSchema }: ListedTool): Tool {
    const { needsApproval } = this.#options
    return {
      name,
      parameters: inputSchema,
      timeoutMs: this.#limits.timeoutMs,
      ...withoutUndefined({
        description: description?.slice(0, MAX_DESCRIPTION_CHARS),
        needsApproval,
      }),
      execute: (args, context) =>
        this.#slots.run(context.signal, () => this.#call(ownName, args, context)),
    }
  }

  async #call(
    tool: string,
    args: Record<string, unknown>,
    { signal }: ToolCallContext,
  ): Promise<string> {
    const client = this.#client
    if (client === undefined) throw new Error('the MCP server is not connected')
    const { maxOutputBytes, timeoutMs } = this.#limits
    const timeout = timeoutMs + CALL_MARGIN_MS
    let result: CallToolResult
    try {
      result = await client.callTool({ name: tool, arguments: args }, { signal, timeout })
    } catch (error) {
      const { ProtocolError } = this.#package.main
      const isAnswer = error instanceof ProtocolError && error.code !== STREAM_ENDED
      if (!isAnswer) void this.#listAgain(client)
      throw new Error(`the MCP server failed: ${this.#hide(reasonOf(error))}`, { cause: error })
    }
    const text = this.#hide(textOf(result))
    if (result.isError === true) throw new Error(text.slice(0, MAX_REASON_CHARS))
    if (Buffer.byteLength(text) <= maxOutputBytes) return text
    throw new Error(`the output exceeds ${maxOutputBytes} bytes`)
  }

  #log(message: string): void {
    this.#options.onLog?.(message)
  }
}

type ListedTool = Pick<ListToolsResult['tools'][number], 'name' | 'description' | 'inputSchema'>

function faultOf({ inputSchema }: ListedTool): string | undefined {
  if (JSON.stringify(inputSchema).length > MAX_SCHEMA_CHARS) return 'its schema is too large'
  return findSchemaFault(inputSchema)
}

const MAX_NAME_CHARS = 64

/** `files__read_file`, as models accept names. A long name ends with a hash of it. */
export function toolName(server: string, tool: string): string {
  const name = `${server}__${tool.replaceAll(/[^a-zA-Z0-9_-]/g, '_')}`
  if (name.length <= MAX_NAME_CHARS) return name
  const hash = createHash('sha256').update(tool).digest('hex').slice(0, 8)
  return `${name.slice(0, MAX_NAME_CHARS - hash.length - 1)}_${hash}`
}

function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : 'an unknown error'
  return text.replaceAll(/\s+/g, ' ').slice(0, MAX_REASON_CHARS)
}

const MAX_LINE_CHARS = 500
/** Per connection. A server may write for years. */
export const MAX_LINES = 200

/** What a server writes to standard error, by lines, within bounds. */
export class StderrLines {
  readonly #onLine: (line: string) => void
  #rest = ''
  #count = 0
  #last = ''

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine
  }

  add(text: string): void {
    const lines = `${this.#rest}${text}`.split('\n')
    this.#rest = (lines.pop() ?? '').slice(0, MAX_LINE_CHARS)
    for (const line of lines) this.#report(line)
  }

  /** The reason, with the last line of output, which often has the details. */
  explain(reason: string): string {
    this.#report(this.#rest)
    return this.#last === '' ? reason : `${reason} (${this.#last})`
  }

  #report(written: string): void {
    const line = written.trim().slice(0, MAX_LINE_CHARS)
    if (line === '') return
    this.#last = line
    this.#count += 1
    if (this.#count <= MAX_LINES) this.#onLine(line)
    else if (this.#count === MAX_LINES + 1) this.#onLine('further lines are left out')
  }
}
