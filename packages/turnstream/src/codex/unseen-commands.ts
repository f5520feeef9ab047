import { asString } from '@turnstream/core/internal/formats/fields'
import { isRecord, parseJsonObject } from '@turnstream/core/internal/protocol/json'
import type { Incoming, Params } from './connection.ts'

const RAW_ITEM = 'rawResponseItem/completed'
const COMMAND_TOOL = 'exec_command'

/** Makes items of calls whose commands the sandbox or policy stopped: codex sends none. Drops other raw items. */
export class UnseenCommands {
  readonly #directory: string
  readonly #calls = new Map<unknown, Params>()
  readonly #shown = new Set<unknown>()

  constructor(directory: string) {
    this.#directory = directory
  }

  apply(message: Incoming): readonly Incoming[] {
    const { item } = message.params
    if (!isRecord(item)) return [message]
    if (message.method === RAW_ITEM) return this.#applyRaw(message, item)
    this.#calls.delete(item['id'])
    return this.#shown.has(item['id']) ? [] : [message]
  }

  #applyRaw(message: Incoming, item: Params): readonly Incoming[] {
    const { type, name, call_id } = item
    if (type === 'function_call' && name === COMMAND_TOOL) this.#calls.set(call_id, item)
    const call = type === 'function_call_output' ? this.#calls.get(call_id) : undefined
    if (call === undefined) return []
    this.#calls.delete(call_id)
    this.#shown.add(call_id)
    const command = this.#itemOf(call, asString(item['output']) ?? '')
    return ['item/started', 'item/completed'].map((method) => {
      return { ...message, method, params: { ...message.params, item: command } }
    })
  }

  #itemOf({ call_id: id, arguments: args }: Params, output: string): Params {
    const { cmd, workdir } = parseJsonObject(asString(args) ?? '') ?? {}
    const exitCode = /^Process exited with code (\d+)$/m.exec(output)?.[1]
    return {
      type: 'commandExecution',
      id,
      command: cmd,
      cwd: asString(workdir) ?? this.#directory,
      status: 'failed',
      aggregatedOutput: output,
      exitCode: exitCode === undefined ? null : Number(exitCode),
    }
  }
}
