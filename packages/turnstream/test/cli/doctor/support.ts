import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import type { Check } from '../../../../conformance/src/endpoint/check.ts'
import { systemClock } from '../../../../core/src/async/clock.ts'
import { doctor } from '../../../src/cli/doctor/doctor.ts'
import { fakeTerminal } from '../fake-terminal.ts'

/** Real connections, on a machine that runs everything else at the same time. */
export const PATIENCE = { timeout: 60_000 }

export function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'turnstream-doctor-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

export interface Setup {
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

/** What a command has reported, as one that was run in this process or in another. */
export interface Reported {
  readonly code: number | null
  readonly text: string
}

export interface Report {
  readonly ok: boolean
  readonly failed: number
  readonly warned: number
  readonly checks: readonly Check[]
}

/** Runs the command, with a free port and a store in memory unless said otherwise. */
async function runDoctor({ args = [], env = {}, cwd = folder() }: Setup): Promise<Reported> {
  const { terminal, output, errors } = fakeTerminal([], { clock: systemClock, env, cwd })
  const code = await doctor.run([...args], terminal)
  expect(errors()).toBe('')
  return { code, text: output() }
}

export function defaults({ args = [], ...rest }: Setup): Setup {
  const port = args.includes('--port') ? [] : ['--port', '0']
  const store =
    args.includes('--store') || rest.env?.['TURNSTREAM_STORE'] ? [] : ['--store', 'memory']
  return { ...rest, args: [...port, ...store, ...args] }
}

/** Both forms of the same report. */
export async function bothReports(setup: Setup, run = runDoctor) {
  const cwd = setup.cwd ?? folder()
  const text = await run({ ...setup, cwd })
  const json = await run({ ...setup, cwd, args: [...(setup.args ?? []), '--json'] })
  expect(json.code).toBe(text.code)
  expect(json.text.trimEnd().split('\n')).toHaveLength(1)
  const report = JSON.parse(json.text) as Report
  return { code: text.code, text: text.text, json: json.text, report }
}

export function checkNamed({ checks }: Report, name: string): Check | undefined {
  return checks.find((check) => check.name === name)
}

/** A vendor on a free port, for as long as the test runs. */
export async function vendorThat(answer: (response: ServerResponse, path: string) => void) {
  const seen: { path: string; headers: Record<string, unknown> }[] = []
  const server = createServer((request, response) => {
    request.resume()
    seen.push({ path: request.url ?? '', headers: request.headers })
    answer(response, request.url ?? '')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen }
}

/** One that lists models, in the form of OpenAI and Anthropic. */
export function listing(...ids: string[]) {
  const body = JSON.stringify({ object: 'list', data: ids.map((id) => ({ id, object: 'model' })) })
  return (response: ServerResponse) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end(body)
}

export function writeConfig(cwd: string, config: unknown): void {
  writeFileSync(join(cwd, 'turnstream.config.json'), JSON.stringify(config))
}
