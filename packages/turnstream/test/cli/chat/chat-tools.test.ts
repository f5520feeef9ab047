import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { chat } from '../../../src/cli/chat.ts'
import { parseAnswer } from '../../../src/cli/chat-tools.ts'
import { POSTCARD_TOOL, TOOL_MODELS } from '../../../src/cli/demo/tool-models.ts'
import type { AskOptions, Terminal } from '../../../src/cli/terminal.ts'
import { answerApproval } from '../../../src/turns/approvals.ts'
import { startGateway } from '../gateway.ts'
import { patientTerminal } from '../patient-terminal.ts'
import { untilTrue } from '../support.ts'

// Real connections, on a machine that runs everything else at the same time.
const PATIENCE = { timeout: 30_000 }

const start = () => startGateway({ recordings: TOOL_MODELS, tools: [POSTCARD_TOOL] })

/** A chat in which the user types these lines. */
async function converse(
  args: string[],
  lines: (string | undefined)[],
  more: Partial<Terminal> = {},
) {
  const prompts: string[] = []
  const made = patientTerminal([], {
    isInteractive: true,
    ask: async (prompt) => {
      prompts.push(prompt)
      return lines.shift()
    },
    ...more,
  })
  const code = await chat.run(args, made.terminal)
  return { code, output: made.output(), errors: made.errors(), prompts }
}

const POSTCARD = ['--model', 'scripted/approval', 'Hello']

describe('V8 a call that needs approval', PATIENCE, () => {
  test.each([
    ['y', '(approved)', 'The tool answered: The postcard to Lisbon was sent (not really).'],
    ['', '(declined)', 'The tool failed: The call was declined.'],
    ['too far', '(declined: too far)', 'The tool failed: The call was declined: too far'],
  ])('is answered with %j', async (line, note, said) => {
    const { url } = await start()
    const { code, output, errors, prompts } = await converse(['--url', url, ...POSTCARD], [line])
    expect([code, errors]).toEqual([0, ''])
    expect(prompts).toEqual(['Run this tool? [y/N, or why not] '])
    expect(output).toContain('⚙ send_postcard({"to":"Lisbon","text":"Hello"})\n')
    expect(output).toContain(`${note}\n`)
    expect(output).toContain(said)
  })

  test('is not answered with what was typed before the question', async () => {
    const { url } = await start()
    const asked: (AskOptions | undefined)[] = []
    const ask: Terminal['ask'] = async (_prompt, options) => {
      asked.push(options)
      return 'n'
    }
    await converse(['--url', url, ...POSTCARD], [], { ask })
    expect(asked).toEqual([{ ignoresTypeAhead: true }])
  })

  test('is cancelled with its turn when the user leaves the question', async () => {
    const { url } = await start()
    const { code, output } = await converse(['--url', url, ...POSTCARD], [undefined])
    expect(code).toBe(1)
    expect(output).toContain('(stopped)')
  })

  test('may be answered elsewhere meanwhile', async () => {
    const { url, log } = await start()
    const ask = async () => {
      const [thread] = (await log.listThreads()).items
      const [turn] = (await log.listTurns(thread?.threadId ?? '')).items
      const answer = { approved: true, by: 'ops', at: 1 }
      await answerApproval(log, turn?.turnId ?? '', 'approval-2', answer)
      return 'n'
    }
    const { code, output, errors } = await converse(['--url', url, ...POSTCARD], [], { ask })
    expect(code).toBe(0)
    expect(errors).toBe('turnstream: The approval was already answered: approved by ops\n')
    expect(output).toContain('(approved by ops)\n')
  })

  test('is left to other clients without a terminal', async () => {
    const { url } = await start()
    const { terminal, output, errors } = patientTerminal()
    const ended = chat.run(['--url', url, ...POSTCARD], terminal)
    await untilTrue(() => errors() !== '')
    const [, path = ''] = /POST (\S+)\n/.exec(errors()) ?? []
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ approved: true })
    expect((await fetch(`${url}${path}`, { method: 'POST', headers, body })).status).toBe(200)
    expect(await ended).toBe(0)
    expect(output()).toContain('The tool answered')
  })

  test.each([
    ['y', { approved: true }],
    [' YES ', { approved: true }],
    ['', { approved: false }],
    ['No', { approved: false }],
    ['yes but later', { approved: false, reason: 'yes but later' }],
    ['x'.repeat(2000), { approved: false, reason: 'x'.repeat(1000) }],
  ])('%j means %j', (line, answer) => {
    expect(parseAnswer(line)).toEqual(answer)
  })
})

describe('client tools', PATIENCE, () => {
  function toolsFile(content: unknown): string {
    const folder = mkdtempSync(join(tmpdir(), 'turnstream-chat-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const file = join(folder, 'tools.json')
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content))
    return file
  }

  const clock = { name: 'clock', parameters: { type: 'object', properties: {} } }
  const model = ['--model', 'scripted/client-tools']

  test('get their results from /answer', async () => {
    const { url } = await start()
    const args = ['--url', url, ...model, '--tools', toolsFile([clock])]
    const lines = ['/answer 9', 'What time is it?', '/answer', '/answer half past nine', undefined]
    const { code, output, errors } = await converse(args, lines)
    expect([code, errors]).toEqual([0, ''])
    expect(output).toContain('No tool call waits for a result.\n')
    expect(output.split('Pass the result of clock with /answer <text>.\n')).toHaveLength(3)
    expect(output).toContain('The tool answered: half past nine')
  })

  test.each([
    ['{', 'must hold a JSON list of tools'],
    ['[1]', 'must hold a JSON list of tools'],
  ])('are refused when the file holds %s', async (content, message) => {
    await expect(converse(['--tools', toolsFile(content), 'Hi'], [])).rejects.toThrow(message)
  })

  test('are refused when there is no file', async () => {
    const missing = converse(['--tools', '/no/such/file', 'Hi'], [])
    await expect(missing).rejects.toThrow(/cannot read \/no\/such\/file: .*no such file/)
  })
})
