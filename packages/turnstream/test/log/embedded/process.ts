import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

const CHILD = fileURLToPath(new URL('child.mjs', import.meta.url))

export interface Report {
  open?: number
  turnId?: string
  seq?: number
  error?: { code: string; message: string }
}

/** A child process with a store: what it reports, and how it is ended. */
export class StoreProcess {
  readonly reports: Report[] = []
  readonly #child: ChildProcess
  readonly #exited: Promise<void>
  #wake: () => void = () => {}
  #isOver = false

  constructor(
    what: 'hold' | 'note' | 'write',
    directory: string,
    options: StoreProcessOptions = {},
  ) {
    const { limitKb, ...rest } = options
    const args = [CHILD, what, directory, JSON.stringify(rest)]
    const limit = `ulimit -f ${limitKb ?? 'unlimited'}; exec "$0" "$@"`
    this.#child = spawn('bash', ['-c', limit, process.execPath, ...args], {
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    const { stdout } = this.#child
    if (stdout === null) throw new Error('the child has no output')
    createInterface({ input: stdout }).on('line', (line) => {
      this.reports.push(JSON.parse(line) as Report)
      this.#wake()
    })
    this.#exited = new Promise((resolve) => {
      this.#child.once('close', () => {
        this.#isOver = true
        this.#wake()
        resolve()
      })
    })
    onTestFinished(() => this.kill())
  }

  /** The first report that suits; fails when the child ends without it. */
  async until(suits: (report: Report) => boolean): Promise<Report> {
    for (;;) {
      const found = this.reports.find(suits)
      if (found !== undefined) return found
      if (this.#isOver)
        throw new Error(`the child has ended: ${JSON.stringify(this.reports.at(-1))}`)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#exited
  }

  /** Lets it close its store. */
  async end(): Promise<void> {
    this.#child.stdin?.end()
    await this.#exited
  }

  /** How many records of a turn were acknowledged. */
  acknowledged(turnId: string): number {
    return this.reports.findLast((report) => report.turnId === turnId)?.seq ?? 0
  }
}

export interface StoreProcessOptions {
  turns?: number
  chars?: number
  sync?: 'commit' | 'system'
  uid?: number
  /** No file may become larger than this. */
  limitKb?: number
}
