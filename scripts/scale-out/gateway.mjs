// A gateway as users start it: the command in a separate process.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const COMMAND = fileURLToPath(
  new URL('../../packages/turnstream/dist/cli/main.js', import.meta.url),
)

/** The environment that the tests need, without provider keys. */
const { PATH = '' } = process.env

export class GatewayProcess {
  url = ''
  #process
  #words = ''

  /** @param {string} name @param {readonly string[]} args */
  constructor(name, args) {
    this.#process = spawn(
      process.execPath,
      [COMMAND, 'serve', '--json', '--port', '0', '--instance', name, ...args],
      { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH } },
    )
    this.#process.stderr.on('data', (chunk) => {
      this.#words = `${this.#words}${chunk}`.slice(-4000)
    })
  }

  /** Resolves when it listens. */
  async listening() {
    for await (const line of createInterface({ input: this.#process.stdout })) {
      this.url = JSON.parse(line).url
      this.#process.stdout.resume()
      return this
    }
    throw new Error(`a gateway did not start: ${this.#words}`)
  }

  get hasExited() {
    return this.#process.exitCode !== null || this.#process.signalCode !== null
  }

  async kill() {
    if (this.hasExited) return
    const gone = once(this.#process, 'exit')
    this.#process.kill('SIGKILL')
    await gone
  }

  /** @param {string} path @param {object} [body] */
  async post(path, body = {}) {
    const response = await fetch(`${this.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    const json = await response.json()
    if (!response.ok) throw new Error(`${response.status} from ${path}: ${JSON.stringify(json)}`)
    return json
  }
}
