// npm run dev: builds and starts the gateway, and again when a file in packages/*/src/ changes.
// Options are passed on: npm run dev -- --port 8080
import { spawn } from 'node:child_process'
import { readdirSync, watch } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

/** Editors write a file in several steps. */
const QUIET_MS = 100

/** A server with running turns gets a second signal after this, which ends it at once. */
const GRACE_MS = 1000

/**
 * @typedef {object} DevOptions
 * @property {readonly string[]} folders watched with everything below them
 * @property {readonly string[]} build arguments for node
 * @property {readonly string[]} server arguments for node
 * @property {(text: string) => void} write
 */

/**
 * Runs until it is closed. A build that fails leaves the old server running.
 * @param {DevOptions} options
 */
export function startDev({ folders, build, server, write }) {
  /** @type {import('node:child_process').ChildProcess | undefined} */
  let child
  /** @type {NodeJS.Timeout | undefined} */
  let timer
  let isClosed = false
  let isStale = false
  let restarts = Promise.resolve()

  async function stop() {
    const running = child
    if (running === undefined || running.exitCode !== null || running.signalCode !== null) return
    const ended = new Promise((resolve) => running.once('close', resolve))
    running.kill('SIGTERM')
    const second = setTimeout(() => running.kill('SIGTERM'), GRACE_MS)
    await ended
    clearTimeout(second)
  }

  async function restart() {
    if (!isStale || isClosed) return
    isStale = false
    const started = Date.now()
    const isBuilt = await run(build)
    if (isClosed) return
    if (!isBuilt) return write('dev: the build failed; waiting for a change\n')
    write(`dev: built in ${((Date.now() - started) / 1000).toFixed(1)} s\n`)
    await stop()
    child = spawn(process.execPath, server, { stdio: ['ignore', 'pipe', 'pipe'] })
    for (const stream of [child.stdout, child.stderr]) {
      if (stream === null) continue
      createInterface({ input: stream }).on('line', (line) => write(`${formatLine(line)}\n`))
    }
  }

  function schedule() {
    isStale = true
    restarts = restarts.then(restart)
  }

  const watchers = folders.map((folder) =>
    watch(folder, { recursive: true }, () => {
      clearTimeout(timer)
      timer = setTimeout(schedule, QUIET_MS)
    }),
  )
  schedule()

  return {
    async close() {
      isClosed = true
      clearTimeout(timer)
      for (const watcher of watchers) watcher.close()
      await restarts
      await stop()
    },
  }
}

/**
 * Formats a log line: the time of day, then the message, with its fields dimmed.
 * @param {string} line
 */
export function formatLine(line) {
  const [, time, message = '', fields = ''] =
    /^\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)\.\d+Z (.*?)((?: \w+=\S*)*)$/.exec(line) ?? []
  if (time === undefined) return line
  const isBad = message.startsWith('warning: ') || /\bcode=/.test(fields)
  return `${dim(time)} ${isBad ? `\x1b[33m${message}\x1b[39m` : message}${dim(fields)}`
}

/** @param {string} text */
function dim(text) {
  return text === '' ? '' : `\x1b[2m${text}\x1b[22m`
}

/** @param {readonly string[]} args @returns {Promise<boolean>} */
function run(args) {
  const child = spawn(process.execPath, args, { stdio: 'inherit' })
  return new Promise((resolve) => child.once('exit', (code) => resolve(code === 0)))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = join(dirname(fileURLToPath(import.meta.url)), '..')
  process.env['TURNSTREAM_SHUTDOWN_GRACE'] ??= '1s'
  const dev = startDev({
    folders: readdirSync(join(root, 'packages')).map((name) => join(root, 'packages', name, 'src')),
    build: [join(root, 'scripts/build.mjs'), '--sources'],
    server: [join(root, 'packages/turnstream/dist/cli/main.js'), 'serve', ...process.argv.slice(2)],
    write: (text) => process.stdout.write(text),
  })
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => void dev.close())
}
