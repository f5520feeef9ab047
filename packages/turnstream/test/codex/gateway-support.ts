/** `turnstream codex` as a process, in front of a real app-server and a vendor in a process of its own. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { turnstream } from '../cli/process.ts'
import { KEY } from './support.ts'

const VENDOR = fileURLToPath(new URL('vendor-process.mjs', import.meta.url))

export interface VendorProcess {
  readonly child: ChildProcess
  readonly port: number
  /** Answers that wait. */
  readonly held: number
}

export async function startVendorProcess(port = 0): Promise<VendorProcess> {
  const child = fork(VENDOR, [String(port)])
  onTestFinished(() => void child.kill('SIGKILL'))
  const vendor = { child, port: 0, held: 0 }
  child.on('message', (message) => Object.assign(vendor, message))
  await once(child, 'message')
  return vendor
}

/** A folder with the configuration of a gateway that calls this port through codex. */
export function gatewayFolder(binary: string, port: number): string {
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-codex-'))
  // codex may still write when it is told to exit.
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }))
  const baseUrl = `http://127.0.0.1:${port}/v1`
  const codex = { binary, baseUrl, keyVariable: 'VENDOR_KEY', models: ['m'] }
  writeFileSync(join(folder, 'turnstream.config.json'), JSON.stringify({ codex }))
  return folder
}

/** Variables that make codex read one certificate for each request and not all, in a third of the time. */
export function certificate(folder: string): Record<string, string> {
  const file = join(folder, 'certificate.pem')
  writeFileSync(file, rootCertificates[0] ?? '')
  return { SSL_CERT_FILE: file, SSL_CERT_DIR: '/nonexistent' }
}

const OPTIONS = ['--max-running-turns', '100', '--submits-per-minute', 'unlimited', '--lease', '4s']

export async function startGateway(folder: string) {
  const env = { VENDOR_KEY: KEY, ...certificate(folder) }
  const server = turnstream(['codex', '--port', '0', ...OPTIONS], { cwd: folder, env })
  const [, url = ''] = await server.printed(/^turnstream listening on (\S+)\n/)
  return { ...server, url, pid: server.child.pid ?? 0 }
}

/** A connection that is kept would count as an open file. */
export const CLOSE = { connection: 'close' }

export async function submit(url: string, turnId: string, prompt: string): Promise<void> {
  const response = await fetch(`${url}/api/v2/submit`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...CLOSE },
    body: JSON.stringify({ turnId, prompt }),
  })
  if (!response.ok) throw new Error(await response.text())
  await response.text()
}

/** The snapshots of a turn to its end. */
export async function readTurn(url: string, turnId: string): Promise<string> {
  return (await fetch(`${url}/xapi/turns/${turnId}/stream`, { headers: CLOSE })).text()
}

/** Reads a turn until its snapshots contain a text, which is durable then. */
export async function waitForText(url: string, turnId: string, text: string): Promise<void> {
  const { body } = await fetch(`${url}/xapi/turns/${turnId}/stream`, { headers: CLOSE })
  let read = ''
  for await (const chunk of body ?? []) {
    read += Buffer.from(chunk).toString()
    if (read.includes(text)) return
  }
  throw new Error(`${turnId} ended without ${text}: ${read}`)
}

/** Processes whose parent is `parent`, with their state: `Z` is a zombie. */
export function childrenOf(parent: number): { pid: number; state: string }[] {
  return readdirSync('/proc').flatMap((name) => {
    try {
      const [, rest = ''] =
        /^\d+ \(.*\) (.*)$/s.exec(readFileSync(`/proc/${name}/stat`, 'utf8')) ?? []
      const [state = '', ppid] = rest.split(' ')
      return Number(ppid) === parent ? [{ pid: Number(name), state }] : []
    } catch {
      return [] // not a process, or gone
    }
  })
}

/** Processes that work in a home of codex. */
export function codexProcesses(folder: string): number[] {
  return readdirSync('/proc').flatMap((name) => {
    try {
      const directory = readlinkSync(`/proc/${name}/cwd`)
      const isHome = directory.startsWith(join(folder, '.turnstream/codex/home-'))
      return isHome && directory.endsWith('/work') ? [Number(name)] : []
    } catch {
      return []
    }
  })
}

/** The open files of a process, sockets included. */
export function openFiles(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length
}
