import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { onTestFinished } from 'vitest'

export interface Process {
  readonly child: ChildProcess
  readonly stdout: () => string
  readonly stderr: () => string
  /** Resolves with the exit code; null when a signal ended it. */
  readonly ended: Promise<number | null>
  /** Resolves with what `pattern` found on standard output; rejects when the process ends before. */
  readonly printed: (pattern: RegExp) => Promise<RegExpExecArray>
}

export interface ProcessOptions {
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
  /** Stopped by its caller rather than at the end of the test. */
  readonly outlives?: boolean
}

/** None of the keys and settings of the machine that runs the tests. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(TURNSTREAM_|OPENAI_|ANTHROPIC_|GEMINI_)|COLOR$/.test(name),
  )
  return Object.fromEntries(kept)
}

const MAIN = new URL('../../dist/cli/main.js', import.meta.url).pathname

/** Starts the built command; it does not outlive the test. */
export function turnstream(args: readonly string[], options: ProcessOptions): Process {
  const { cwd, env = {}, outlives = false } = options
  const environment = { ...cleanEnvironment(), ...env }
  const child = spawn(process.execPath, [MAIN, ...args], { cwd, env: environment })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const ended = once(child, 'close').then(([code]) => code as number | null)
  if (!outlives) {
    onTestFinished(async () => {
      child.kill('SIGKILL')
      await ended
    })
  }

  async function printed(pattern: RegExp): Promise<RegExpExecArray> {
    let isOver = false
    const over = ended.then(() => {
      isOver = true
    })
    for (;;) {
      const found = pattern.exec(stdout)
      if (found !== null) return found
      if (isOver) throw new Error(`it ended without printing ${pattern}: ${stdout}${stderr}`)
      await Promise.race([once(child.stdout, 'data'), over])
    }
  }

  return { child, stdout: () => stdout, stderr: () => stderr, ended, printed }
}
