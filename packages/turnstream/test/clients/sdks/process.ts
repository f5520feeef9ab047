/** Runs SDKs that need a newer Node than the tests may have, each in a process of its own. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'
import { installTestClients } from '../../../../../scripts/install-test-clients.mjs'
import { installNode } from '../../../../../scripts/newest-node.mjs'

/** The folder of the SDKs. */
export const FOLDER = fileURLToPath(new URL('./', import.meta.url))
const OLDEST_MAJOR = 22

/** What a program of programs/ returned or threw. */
interface Outcome {
  // oxlint-disable-next-line typescript/no-explicit-any -- what it holds is what the test is about
  readonly result?: any
  readonly error?: { readonly name: string; readonly message: string; readonly status?: number }
}

export type RunScenario = (scenario: string, options: object) => Promise<Outcome>

/** Starts a program with the first scenario. It ends with the file. Scenarios run one after another. */
export function startSdk(program: string): RunScenario {
  let child: ChildProcessWithoutNullStreams | undefined
  let results: AsyncIterator<string> | undefined
  let errors = ''
  let last: Promise<unknown> = Promise.resolve()
  afterAll(() => void child?.kill())

  function start(): ChildProcessWithoutNullStreams {
    installTestClients(FOLDER)
    const started = spawn(nodeProgram(), ['run.mjs', program], { cwd: `${FOLDER}programs` })
    started.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors = `${errors}${text}`.slice(-10_000)
    })
    results = createInterface({ input: started.stdout })[Symbol.asyncIterator]()
    return started
  }

  async function run(scenario: string, options: object): Promise<Outcome> {
    child ??= start()
    child.stdin.write(`${JSON.stringify({ scenario, ...options })}\n`)
    const next = await results?.next()
    if (next === undefined || next.done) throw new Error(`${program} ended: ${errors}`)
    return JSON.parse(next.value) as Outcome
  }

  return (scenario, options) => {
    const outcome = last.then(() => run(scenario, options))
    last = outcome.catch(() => undefined)
    return outcome
  }
}

/** A Node that is new enough for them. */
export function nodeProgram(): string {
  const major = Number(process.versions.node.split('.')[0])
  return major >= OLDEST_MAJOR ? process.execPath : installNode().node
}
