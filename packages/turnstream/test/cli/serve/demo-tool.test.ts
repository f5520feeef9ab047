/** The tool of `scripted/approval` is there for the models that know it, and in nobody's way. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { StreamOutput } from '../../../../core/src/index.ts'
import { serve } from '../../../src/cli/serve/serve.ts'
import { fakeTerminal } from '../fake-terminal.ts'
import { fakeVendor } from '../fake-vendor.ts'
import { untilTrue } from '../support.ts'

const OWN = {
  name: 'send_postcard',
  parameters: { type: 'object', properties: { to: { type: 'string' }, text: { type: 'string' } } },
}

async function startServer(env: Record<string, string> = {}): Promise<string> {
  const cwd = mkdtempSync(join(tmpdir(), 'turnstream-demo-tool-'))
  writeFileSync(join(cwd, 'package.json'), '{}')
  const { terminal, output, signal } = fakeTerminal([], { env, cwd })
  const running = serve.run(
    ['--port', '0', '--store', 'memory', '--scripted-speed', '50'],
    terminal,
  )
  onTestFinished(async () => {
    signal('SIGTERM')
    await running
    rmSync(cwd, { recursive: true, force: true })
  })
  await untilTrue(() => output() !== '')
  return /http:\/\/[^\s"]+/.exec(output())?.[0] ?? ''
}

async function submit(url: string, body: object) {
  const response = await fetch(`${url}/api/v2/submit`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ turnId: 't', prompt: 'Hi', ...body }),
  })
  return { status: response.status, text: await response.text() }
}

/** Reads snapshots until one has a text. */
async function outputsUntil(url: string, text: string): Promise<StreamOutput[]> {
  const leave = new AbortController()
  const { body } = await fetch(`${url}/xapi/turns/t/stream`, { signal: leave.signal })
  let read = ''
  for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    read += chunk
    if (read.includes(text)) break
  }
  leave.abort()
  const frames = read.matchAll(/^data: (\{.*\})$/gm)
  return [...frames].map(([, data = '']) => JSON.parse(data) as StreamOutput)
}

const call = (outputs: readonly StreamOutput[]) => outputs.find(({ type }) => type === 'tool_call')

describe("a client's own tool send_postcard", () => {
  test.each(['client-tools', 'approval'])(
    'is called by scripted/%s, and left to the client',
    async (model) => {
      const url = await startServer()
      const { status, text } = await submit(url, { model: `scripted/${model}`, tools: [OWN] })
      expect([status, text]).toEqual([202, expect.anything()])
      const outputs = await outputsUntil(url, '"turn_complete"')
      expect(outputs.at(-1)).toMatchObject({ finishReason: 'tool_calls' })
      expect(call(outputs)).toMatchObject({ toolName: OWN.name, status: 'create' })
      expect(call(outputs)).not.toHaveProperty('approval')
    },
  )
})

test('the demo tool is offered to no model', async () => {
  const url = await startServer()
  await submit(url, { model: 'scripted/server-tools' })
  const outputs = await outputsUntil(url, '"turn_complete"')
  expect(call(outputs)).toBeUndefined()
  expect(JSON.stringify(outputs)).toContain('There is no tool that this model could call')
})

test.each(['alone', 'beside a provider'])('scripted/approval asks, %s', async (where) => {
  const vendor = where === 'alone' ? undefined : await fakeVendor(200, '')
  const url = await startServer({
    ...(vendor && {
      OPENAI_COMPATIBLE_BASE_URL: vendor.url,
      OPENAI_COMPATIBLE_MODEL: 'm',
    }),
  })
  expect((await submit(url, { model: 'scripted/approval' })).status).toBe(202)
  const outputs = await outputsUntil(url, '"requested"')
  expect(call(outputs)).toMatchObject({ toolName: OWN.name, approval: { status: 'requested' } })
  await fetch(`${url}/api/v2/runs/t/cancel`, { method: 'POST' })
})
