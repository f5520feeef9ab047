// Records the picture of the README, docs/resume.svg: a real session with a real gateway.
// A reader is cut off in the middle of an answer, and resumes after the last offset that it saw.
//
//     npm run build && node scripts/picture.mjs
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

/**
 * A line of the terminal, and when it appeared, in seconds.
 * @typedef {{ at: number, kind: 'command' | 'output' | 'note', text: string }} Line
 */

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const MAIN = join(root, 'packages/turnstream/dist/cli/main.js')

/** Lines of the first reader before it is cut off, and how long it is away. */
const CUT_AFTER = 5
const AWAY_MS = 2000

/**
 * @param {{ speed?: number }} [options] how fast the recorded answer is played
 * @returns {Promise<Line[]>}
 */
export async function recordSession({ speed = 1 } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-picture-'))
  const args = ['serve', '--port', '0', '--store', 'memory', '--scripted-speed', `${speed}`]
  const server = spawn(process.execPath, [MAIN, ...args], { cwd: folder })
  const stopped = new Promise((resolve) => server.once('close', resolve))
  try {
    /** @type {string} */
    const url = await new Promise((resolve, reject) => {
      const lines = createInterface({ input: server.stdout })
      lines.on('line', (line) => {
        const [, found] = /^turnstream listening on (\S+)/.exec(line) ?? []
        if (found !== undefined) resolve(found)
      })
      server.once('close', () => reject(new Error('the gateway did not start')))
    })
    return await record(url, AWAY_MS / speed)
  } finally {
    server.kill('SIGKILL')
    await stopped
    rmSync(folder, { recursive: true, force: true })
  }
}

/** @param {string} url @param {number} awayMs */
async function record(url, awayMs) {
  /** @type {Line[]} */
  const lines = []
  const start = Date.now()
  /** @param {Line['kind']} kind @param {string} text */
  const add = (kind, text) => lines.push({ at: (Date.now() - start) / 1000, kind, text })

  const body = '{"turnId":"turn-1","prompt":"Hi"}'
  add('command', `curl $URL/api/v2/submit -H 'content-type: application/json' -d '${body}'`)
  const headers = { 'content-type': 'application/json' }
  const submitted = await fetch(`${url}/api/v2/submit`, { method: 'POST', headers, body })
  add('output', await submitted.text())

  /** @param {string[]} args @param {number} [limit] ends the reader after that many lines */
  async function tail(args, limit = Number.POSITIVE_INFINITY) {
    add('command', ['npx turnstream tail turn-1', ...args].join(' '))
    const child = spawn(process.execPath, [MAIN, 'tail', 'turn-1', ...args, '--url', url])
    const ended = new Promise((resolve) => child.once('close', resolve))
    let seen = 0
    for await (const line of createInterface({ input: child.stdout })) {
      add('output', line)
      seen += 1
      if (seen === limit) child.kill('SIGKILL')
      if (seen >= limit) break
    }
    await ended
  }

  await tail([], CUT_AFTER)
  const [cursor = ''] = lines.at(-1)?.text.split(' ') ?? []
  add('note', '# the connection breaks here; the answer goes on without a reader')
  await sleep(awayMs)
  await tail(['--from', cursor])
  return lines
}

const CHAR_WIDTH = 7.5
const LINE_HEIGHT = 19
const COLUMNS = 100
const COLOURS = { command: '#e6edf3', output: '#9fb1c4', note: '#e3b341' }

/** @param {readonly Line[]} lines @returns {string} an animated picture that shows all lines where animation is off */
export function toSvg(lines) {
  const width = Math.ceil(COLUMNS * CHAR_WIDTH) + 32
  const height = lines.length * LINE_HEIGHT + 32
  const texts = lines.map(({ at, kind, text }, index) => {
    const prompt = kind === 'command' ? '<tspan fill="#3fb950">$ </tspan>' : ''
    const shown = text.length > COLUMNS ? `${text.slice(0, COLUMNS - 1)}…` : text
    const y = 32 + index * LINE_HEIGHT
    return `<text x="16" y="${y}" fill="${COLOURS[kind]}" style="animation-delay:${at.toFixed(1)}s">${prompt}${escape(shown)}</text>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 ${width} ${height}" role="img" aria-label="A reader of a turn is cut off and resumes">
<style>
text { font: 12.5px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; animation: appear .01s both }
@keyframes appear { from { opacity: 0 } }
@media (prefers-reduced-motion: reduce) { text { animation: none } }
</style>
<rect width="${width}" height="${height}" rx="8" fill="#0d1117"/>
${texts.join('\n')}
</svg>
`
}

/** @param {string} text */
function escape(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(join(root, 'docs/resume.svg'), toSvg(await recordSession()))
}
