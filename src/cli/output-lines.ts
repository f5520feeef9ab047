import type { StreamOutput, ToolCall } from '../protocol/stream-output.ts'
import { printable } from './printable.ts'

export interface OutputSummary {
  readonly title: string
  readonly detail: string
}

/** An output as one line: what it is, and what it says. */
export function summaryOf(output: StreamOutput): OutputSummary {
  switch (output.type) {
    case 'turn_started':
      return { title: output.type, detail: `${output.providerId ?? ''} ${output.modelId ?? ''}` }
    case 'turn_complete':
      return {
        title: output.type,
        detail: `${output.status}, ${output.usage?.totalTokens ?? 0} tokens`,
      }
    case 'turn_error':
      return { title: output.type, detail: `${output.error.code}: ${output.error.message}` }
    case 'tool_call':
      return {
        title: `${output.type} ${output.status}`,
        detail: faultOf(output) + toolLine(output),
      }
    case 'message':
    case 'thinking': {
      const { type, status, content } = output
      const detail = `${faultOf(output)}${content.length} characters: ${content}`
      return { title: `${type} ${status}`, detail }
    }
  }
}

/** A call as it is written in a program, and what it came to. */
export function toolLine({ toolName, toolArguments, toolOutput }: ToolCall): string {
  const call = `${toolName}(${JSON.stringify(toolArguments)})`
  return toolOutput === undefined ? call : `${call} → ${JSON.stringify(toolOutput)}`
}

function faultOf({ errorCode }: { errorCode?: string }): string {
  return errorCode === undefined ? '' : `${errorCode}: `
}

/** One line, cut in the middle: the beginning tells what it is, the end what is new. */
export function clip(text: string, room: number): string {
  const line = printable(text).replaceAll(/\s+/g, ' ')
  if (line.length <= room) return line
  const head = Math.ceil(room / 2)
  return `${line.slice(0, head)}…${line.slice(line.length - (room - head - 1))}`
}
