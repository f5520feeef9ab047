import { CONTROLS } from '@turnstream/core/internal/protocol/printable'
import type { StreamOutput, ToolCall } from '@turnstream/core/internal/protocol/stream-output'

const STYLE_OR_CONTROL = new RegExp(String.raw`\u001b\[\d{1,2}m|${CONTROLS}`, 'gu')

/** Escapes control characters, except our own styles, in everything the terminal writes. Inside JSON the value is the same. */
export function escapeControls(text: string): string {
  return text.replaceAll(STYLE_OR_CONTROL, (found) =>
    found.length > 1 ? found : `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Breaks long lines at spaces, and indents what follows like the text after the line's last gap. */
export function wrap(text: string, columns: number): string {
  return text
    .split('\n')
    .flatMap((line) => wrapLine(line, columns))
    .join('\n')
}

function wrapLine(line: string, columns: number): string[] {
  const indent = /^(?:.*\S {2,}|\s*)/.exec(line)?.[0].length ?? 0
  const lines: string[] = []
  let rest = line
  while (rest.length > columns) {
    const at = rest.lastIndexOf(' ', columns)
    if (at <= indent) break
    lines.push(rest.slice(0, at))
    rest = ' '.repeat(indent) + rest.slice(at + 1)
  }
  return [...lines, rest]
}

/** Removes quoted parts, from the first quotation mark to the last, because the quoted text may contain some. */
export const withoutQuotes = (text: string): string => text.replace(/["'`].*["'`]/s, '…')

export function megabytes(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${(bytes / 1e6).toFixed(1)} MB`
}

export const messageOf = (error: unknown) =>
  error instanceof Error ? error.message : String(error)

export function describeOutput(output: StreamOutput): { title: string; detail: string } {
  const { type } = output
  switch (type) {
    case 'turn_started':
      return { title: type, detail: `${output.providerId ?? ''} ${output.modelId ?? ''}` }
    case 'turn_complete':
      return { title: type, detail: `${output.status}, ${output.usage?.totalTokens ?? 0} tokens` }
    case 'turn_error':
      return { title: type, detail: `${output.error.code}: ${output.error.message}` }
    case 'tool_call':
    case 'message':
    case 'thinking': {
      const { status, content, errorCode } = output
      const text =
        type === 'tool_call' ? describeCall(output) : `${content.length} characters: ${content}`
      const detail = errorCode === undefined ? text : `${errorCode}: ${text}`
      return { title: `${type} ${status}`, detail }
    }
  }
}

export function describeCall({ toolName, toolArguments, toolOutput, success }: ToolCall): string {
  const call = `${toolName}(${JSON.stringify(toolArguments)})`
  if (toolOutput === undefined) return call
  return `${call} → ${success === false ? 'failed: ' : ''}${JSON.stringify(toolOutput)}`
}
