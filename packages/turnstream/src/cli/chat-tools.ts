import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Client, ClientTool, ToolAnswer } from '@turnstream/client'
import { isRecord, parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import { printable } from '@turnstream/core/internal/protocol/printable'
import type { PendingCall, StreamOutput } from '@turnstream/core/internal/protocol/stream-output'
import { isFailure, UsageError } from './command.ts'
import type { Terminal } from './terminal.ts'
import { messageOf } from './text.ts'

export class OpenCalls {
  #calls: readonly PendingCall[] = []
  #results: ToolAnswer[] = []

  /** Takes the calls that a turn leaves to the client. Returns a message for the user; empty without calls. */
  note(output: StreamOutput): string {
    const isEnd = output.type === 'turn_complete' || output.type === 'turn_error'
    if (!isEnd) return ''
    this.#calls = output.pendingCalls ?? []
    this.#results = []
    return this.#hint()
  }

  /** Answers the next call. Returns the results of all when it was the last, and otherwise a message for the user. */
  answer(output: string): readonly ToolAnswer[] | string {
    const call = this.#calls[this.#results.length]
    if (call === undefined) return 'No tool call waits for a result.\n'
    if (output === '') return this.#hint()
    this.#results.push({ callId: call.callId, output })
    return this.#results.length < this.#calls.length ? this.#hint() : this.#results
  }

  #hint(): string {
    const call = this.#calls[this.#results.length]
    return call ? `Pass the result of ${printable(call.toolName)} with /answer <text>.\n` : ''
  }
}

/** Returns a function that asks the user about every call of a turn that needs approval, once each. */
export function approvalQuestions(client: Client, turnId: string, terminal: Terminal) {
  const prompted = new Set<string>()
  // Returns when the call was answered. Without a user, another client has to answer.
  return async (output: StreamOutput): Promise<void> => {
    const approval = output.type === 'tool_call' ? output.approval : undefined
    if (approval?.status !== 'requested' || prompted.has(approval.id)) return
    prompted.add(approval.id)
    if (!terminal.isInteractive) {
      const route = `POST /api/v2/runs/${encodeURIComponent(turnId)}/approvals/${approval.id}`
      terminal.writeError(`turnstream: waiting for approval: ${printable(route)}\n`)
      return
    }
    const prompt = 'Run this tool? [y/N, or why not] '
    const line = await terminal.ask(prompt, { ignoresTypeAhead: true })
    try {
      if (line === undefined) await client.cancel(turnId, 'cancelled by the user')
      else await client.approve(turnId, approval.id, parseAnswer(line))
    } catch (error) {
      // It may have been answered elsewhere, or have timed out.
      if (!isFailure(error)) throw error
      terminal.writeError(`turnstream: ${printable(messageOf(error))}\n`)
    }
  }
}

const MAX_REASON_CHARS = 1000

export function parseAnswer(line: string): { approved: boolean; reason?: string } {
  const text = line.trim()
  if (/^y(?:es)?$/i.test(text)) return { approved: true }
  if (/^(?:no?)?$/i.test(text)) return { approved: false }
  return { approved: false, reason: text.slice(0, MAX_REASON_CHARS) }
}

const MAX_TOOLS_BYTES = 1024 * 1024

const isTool = (value: unknown): value is ClientTool =>
  isRecord(value) && typeof value['name'] === 'string' && isRecord(value['parameters'])

/** Reads the definitions of client tools. The gateway checks their details. */
export function readTools(file: string, cwd: string): readonly ClientTool[] {
  let text: string
  try {
    text = readFileSync(resolve(cwd, file), 'utf8')
  } catch (error) {
    throw new UsageError(`cannot read ${file}: ${messageOf(error)}`)
  }
  const tools = text.length <= MAX_TOOLS_BYTES ? parseJsonSafe(text) : undefined
  if (Array.isArray(tools) && tools.every(isTool)) return tools
  throw new UsageError(`${file} must hold a JSON list of tools, each with name and parameters`)
}
