/** The official MCP server with a tool of every kind, installed from npm beside these tests. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { onTestFinished } from 'vitest'

const PACKAGE = '@modelcontextprotocol/server-everything'
const MODULES = new URL('./node_modules/', import.meta.url)

export const EVERYTHING = new URL(`${PACKAGE}/dist/index.js`, MODULES).pathname

/** Process ids of the servers that this process has started. */
export function serversOf(parent: number | undefined): number[] {
  const rows = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,args='], { encoding: 'utf8' })
  return rows.split('\n').flatMap((row) => {
    const [pid, ppid, ...args] = row.trim().split(/\s+/)
    return Number(ppid) === parent && args.join(' ').includes(EVERYTHING) ? [Number(pid)] : []
  })
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Asks until it is so. The time limit is that of the test. */
export async function until<T>(look: () => T | Promise<T>): Promise<NonNullable<T>> {
  for (;;) {
    const found = await look()
    if (found) return found
    await new Promise((resolve) => {
      setTimeout(resolve, 20)
    })
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** The same server behind HTTP, which can be stopped and started again. */
export async function everythingOverHttp() {
  const port = await freePort()
  let child: ChildProcess | undefined
  const stop = async (): Promise<void> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  const start = async (): Promise<void> => {
    const env = { ...process.env, PORT: `${port}` }
    const started = spawn(process.execPath, [EVERYTHING, 'streamableHttp'], { env })
    child = started
    started.stdout.resume()
    let text = ''
    await new Promise<void>((resolve, reject) => {
      started.on('exit', () => reject(new Error(text)))
      started.stderr.on('data', (chunk: Buffer) => {
        text += chunk.toString()
        if (/listening/i.test(text)) resolve()
      })
    })
  }
  onTestFinished(stop)
  /** It keeps its connections, and says nothing more. */
  const freeze = () => child?.kill('SIGSTOP')
  return { url: `http://127.0.0.1:${port}/mcp`, start, stop, freeze }
}
