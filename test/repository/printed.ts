/** An indented block without its indentation. */
export function outdent(block: string): string {
  return block.replaceAll(/^ {4}/gm, '')
}

/** Lines that say something; the blank ones between the frames of SSE do not. */
export function linesOf(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trimEnd())
    .filter((line) => line !== '')
}

/**
 * What the printed lines allow: `…` stands for anything within a line, and alone in its line for any
 * number of lines.
 */
export function pattern(printed: string): RegExp {
  const lines = linesOf(printed).map((line) =>
    line === '…' ? String.raw`(?:.*\n)*` : String.raw`${line.split('…').map(escape).join('.*')}\n`,
  )
  return new RegExp(`^${lines.join('')}$`)
}

function escape(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`)
}
