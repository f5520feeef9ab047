import type { Submission } from '@turnstream/core/internal/formats/submission'

const MAX_CHARS = 80
/** A longer start without a line is not read: messages may be large, and there may be thousands. */
const MAX_READ_CHARS = 1000

/** The first line of the user's first message. Instructions of agents, which are inside a tag, do not count. */
export function threadTitle({ history = [], input, contentMs }: Submission): string | undefined {
  // A title would outlive the content.
  if (contentMs !== undefined) return undefined
  for (const item of [...history, ...input]) {
    if (item.type !== 'message' || item.origin !== 'user') continue
    const line = firstLine(item.content.slice(0, MAX_READ_CHARS))
    if (line !== '' && !line.startsWith('<')) return line
  }
  return undefined
}

function firstLine(text: string): string {
  const [line = ''] = text.trimStart().split(/[\r\n]/, 1)
  const chars = Array.from(line.replaceAll(/\p{Cc}/gu, ' ').trim())
  return chars.length > MAX_CHARS ? `${chars.slice(0, MAX_CHARS - 1).join('')}…` : chars.join('')
}
