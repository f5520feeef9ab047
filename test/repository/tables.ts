/** The rows below the heading of every Markdown table in `text`, as trimmed cells. */
export function tableRows(text: string): string[][] {
  const rows: string[][] = []
  let inTable = false
  for (const line of text.split('\n')) {
    if (!line.startsWith('|')) inTable = false
    else if (/^\|[\s:|-]+\|$/.test(line)) inTable = true
    else if (inTable) rows.push(cellsOf(line))
  }
  return rows
}

// A vertical bar inside a cell is written `\|`.
function cellsOf(line: string): string[] {
  return line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim().replaceAll('\\|', '|'))
}

/** The part of a Markdown text under the heading `title`, up to the next heading of any depth. */
export function section(text: string, title: string): string {
  const lines = text.split('\n')
  const start = lines.findIndex((line) => /^#+ /.test(line) && line.replace(/^#+ /, '') === title)
  if (start === -1) throw new Error(`no heading "${title}"`)
  const length = lines.slice(start + 1).findIndex((line) => /^#+ /.test(line))
  return lines.slice(start + 1, length === -1 ? undefined : start + 1 + length).join('\n')
}
