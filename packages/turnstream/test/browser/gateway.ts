/** `turnstream serve` as a process, in front of a vendor whose answers wait for the test. */
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Process, turnstream } from '../cli/process.ts'
import { untilTrue } from '../cli/support.ts'
import { ChatVendor } from '../clients/chat-vendor.ts'

interface Output {
  readonly origin?: string
  readonly content?: string
}

export class Gateway {
  readonly vendor = new ChatVendor()
  readonly #folder = mkdtempSync(join(tmpdir(), 'turnstream-browser-'))
  #process: Process | undefined
  #url = ''

  /** With keys it needs `keysFile`, and `addKey` before. Pages of other origins need `corsOrigins`. */
  async start(settings: Readonly<Record<string, unknown>> = {}): Promise<this> {
    const baseUrl = await this.vendor.start()
    const providers = { 'openai-compatible': { baseUrl, models: ['m'] } }
    const config = { store: 'store', providers, maxRunningTurns: 'unlimited', ...settings }
    writeFileSync(join(this.#folder, 'turnstream.config.json'), JSON.stringify(config))
    await this.run()
    return this
  }

  async close(): Promise<void> {
    await this.kill()
    await this.vendor.stop()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  get url(): string {
    return this.#url
  }

  /** Starts the process again, on the same port and store. */
  async run(): Promise<void> {
    const port = this.#url === '' ? '0' : new URL(this.#url).port
    const options = { cwd: this.#folder, outlives: true }
    this.#process = turnstream(['serve', '--port', port], options)
    const [, url = ''] = await this.#process.printed(/^turnstream listening on (\S+)\n/)
    this.#url = url
  }

  async kill(): Promise<void> {
    this.#process?.child.kill('SIGKILL')
    await this.#process?.ended
  }

  /** Returns a new key of the only tenant. Add keys before the start. */
  addKey(name: string): string {
    const key = randomBytes(16).toString('hex')
    const hash = createHash('sha256').update(key).digest('hex')
    writeFileSync(this.#keysFile, `acme:${name}:${hash}\n`, { flag: 'a' })
    return key
  }

  /** Revokes a key, which cuts its streams. */
  async revokeKey(name: string): Promise<void> {
    const lines = readFileSync(this.#keysFile, 'utf8').split('\n')
    const others = lines.filter((line) => !line.startsWith(`acme:${name}:`))
    writeFileSync(this.#keysFile, others.join('\n'))
    this.#process?.child.kill('SIGHUP')
    await untilTrue(() => this.#process?.stderr().includes('reloaded keys') === true)
  }

  get #keysFile(): string {
    return join(this.#folder, 'keys')
  }

  /** The number of open streams, as the gateway counts them. */
  async maxOpenStreams(): Promise<number> {
    const response = await fetch(`${this.#url}/metrics`)
    const lines = (await response.text()).matchAll(/^turnstream_stream_clients\S* (\d+)$/gm)
    return [...lines].reduce((sum, [, count]) => sum + Number(count), 0)
  }

  /** The text of the agent in a turn, as it is stored. */
  async storedText(turnId: string, key = ''): Promise<string> {
    const headers: HeadersInit = key === '' ? {} : { authorization: `Bearer ${key}` }
    const response = await fetch(`${this.#url}/xapi/turns/${turnId}`, { headers })
    const { outputs } = (await response.json()) as { outputs: readonly Output[] }
    return outputs.flatMap(({ origin, content }) => (origin === 'agent' ? [content] : [])).join('')
  }
}
