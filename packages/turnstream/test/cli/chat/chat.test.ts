import { describe, expect, test } from 'vitest'
import { DEMOS } from '../../../../../test/demo-recordings.ts'
import type { StreamOutput } from '../../../../core/src/index.ts'
import { chat } from '../../../src/cli/chat.ts'
import type { Terminal } from '../../../src/cli/terminal.ts'
import { cuttingProxy } from '../cutting-proxy.ts'
import { fakeVendor } from '../fake-vendor.ts'
import { startGateway } from '../gateway.ts'
import { patientTerminal } from '../patient-terminal.ts'
import { serverWith } from '../sse-server.ts'
import { freePort, untilTrue } from '../support.ts'

// Real connections, on a machine that runs everything else at the same time.
const PATIENCE = { timeout: 30_000 }

const utf8 = new TextEncoder()

async function run(args: string[], input = '', more: Partial<Terminal> = {}) {
  const made = patientTerminal(input === '' ? [] : [utf8.encode(input)], more)
  const code = await chat.run(args, made.terminal)
  return { code, output: made.output(), errors: made.errors(), waits: made.waits }
}

/** The text of a recording, which is what a chat prints of it. */
function textOf(name: 'answer' | 'thinking' | 'long'): string {
  const texts = DEMOS[name].flatMap(({ payload }) =>
    payload.type === 'item_done' && 'content' in payload.final_item
      ? [payload.final_item.content]
      : [],
  )
  return `${texts.join('\n\n')}\n`
}

describe('a single answer', PATIENCE, () => {
  test('to a prompt given as an argument', async () => {
    const { url } = await startGateway()
    const { code, output, errors } = await run(['--url', url, 'Hello', 'there'])
    expect([code, errors]).toEqual([0, ''])
    expect(output).toBe(textOf('answer'))
  })

  test('to a prompt piped in, from another model', async () => {
    const { url, log } = await startGateway()
    await log.putThread({ threadId: 'riddles' })
    const args = ['--url', url, '--model', 'scripted/thinking', '--thread', 'riddles']
    const { code, output } = await run(args, 'A farmer has a wolf …\n')
    expect(code).toBe(0)
    expect(output).toBe(textOf('thinking'))
    const [turn] = (await log.listTurns('riddles')).items
    const { records } = await log.snapshot(turn?.turnId ?? '')
    expect(records.map(({ data }) => data).join('')).toContain('"content":"A farmer has a wolf …"')
  })

  test('from the gateway in TURNSTREAM_URL', async () => {
    const { url } = await startGateway()
    const { code } = await run(['Hello'], '', { env: { TURNSTREAM_URL: url } })
    expect(code).toBe(0)
  })

  test('prints tool calls as lines', async () => {
    const { url } = await startGateway()
    const { output } = await run(['--url', url, '--model', 'scripted/tools', 'Hello'])
    expect(output.match(/^⚙ .*→/gm)).toHaveLength(3)
    expect(output).toContain('⚙ get_weather({"city":"Porto"')
  })

  test('prints the partial answer and exits with 1 when the turn fails', async () => {
    const { url } = await startGateway()
    const { code, output } = await run(['--url', url, '--model', 'scripted/error', 'Hello'])
    expect(code).toBe(1)
    expect(output).toMatch(/^This answer will break off\./)
    expect(output).toMatch(/\n✗ overloaded_error: .*\n$/)
  })

  test('prints one complete snapshot per line with --json', async () => {
    const { url } = await startGateway()
    const { code, output } = await run(['--url', url, '--json', 'Hello'])
    const outputs = output
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as StreamOutput)
    expect(code).toBe(0)
    expect(outputs.at(0)).toMatchObject({ type: 'turn_started' })
    expect(outputs).toContainEqual(expect.objectContaining({ content: 'Hello', origin: 'user' }))
    expect(outputs.at(-2)).toMatchObject({
      status: 'complete',
      content: textOf('answer').trimEnd(),
    })
    expect(outputs.at(-1)).toMatchObject({ type: 'turn_complete' })
  })
})

describe('a lost connection', PATIENCE, () => {
  const sizes = [0, 1, 150, 300, 400, 500, 700, 1000, 1500, 2500, 4000, 9000]

  test.each(sizes)(
    'after %i bytes of every second response: the text is complete and not repeated',
    async (bytes) => {
      const { url } = await startGateway({ speed: 40 })
      let streams = 0
      const proxy = await cuttingProxy(url, (line) => {
        if (!line.startsWith('GET /xapi')) return undefined
        streams += 1
        return streams % 2 === 1 ? bytes : undefined
      })
      const { code, output } = await run(['--url', proxy.url, 'Hello'])
      expect(code).toBe(0)
      expect(output).toBe(textOf('answer'))
    },
  )

  test('many times during a long answer', async () => {
    const { url } = await startGateway({ speed: 60 })
    let streams = 0
    const proxy = await cuttingProxy(url, (line) => {
      if (!line.startsWith('GET /xapi')) return undefined
      streams += 1
      // Each gets a little further than the one before.
      return streams < 9 ? streams * 12_000 : undefined
    })
    const { code, output, waits } = await run([
      '--url',
      proxy.url,
      '--model',
      'scripted/long',
      'Hello',
    ])
    expect(code).toBe(0)
    expect(output).toBe(textOf('long'))
    expect(waits.length).toBeGreaterThan(2)
  })

  test('during submit creates one turn', async () => {
    const { url, log } = await startGateway()
    let submits = 0
    const proxy = await cuttingProxy(url, (line) => {
      if (!line.startsWith('POST')) return undefined
      submits += 1
      return submits < 3 ? 10 : undefined
    })
    expect((await run(['--url', proxy.url, 'Hello'])).code).toBe(0)
    expect(submits).toBe(3)
    const threads = (await log.listThreads()).items
    expect(threads).toHaveLength(1)
    expect((await log.listTurns(threads[0]?.threadId ?? '')).items).toHaveLength(1)
  })

  test.each([
    [true, true],
    [false, false],
  ])(
    'prints a retry notice after a long disconnect (interactive: %s): %s',
    async (isInteractive, isTold) => {
      const { url } = await startGateway()
      let streams = 0
      const proxy = await cuttingProxy(url, (line) => {
        if (!line.startsWith('GET /xapi')) return undefined
        streams += 1
        return streams < 4 ? 0 : undefined
      })
      const { output } = await run(['--url', proxy.url, 'Hello'], '', { isInteractive })
      expect(output.includes('(connection lost, retrying in ')).toBe(isTold)
      expect(output).toContain(textOf('answer'))
    },
  )

  test('repeats no snapshot with --json', async () => {
    const { url } = await startGateway({ speed: 40 })
    let streams = 0
    const proxy = await cuttingProxy(url, (line) => {
      if (!line.startsWith('GET /xapi')) return undefined
      streams += 1
      return streams < 4 ? 2500 * streams : undefined
    })
    const { output } = await run(['--url', proxy.url, '--json', 'Hello'])
    const lines = output.trimEnd().split('\n')
    expect(new Set(lines).size).toBe(lines.length)
    const lengths = lines.map((line) => (JSON.parse(line) as { content?: string }).content?.length)
    const texts = lengths.filter((length) => (length ?? 0) > 5)
    expect(texts).toEqual(texts.toSorted((a, b) => (a ?? 0) - (b ?? 0)))
  })
})

describe('Ctrl-C during an answer', PATIENCE, () => {
  test('cancels the turn, keeps the printed text and exits with 1', async () => {
    const { url, gateway } = await startGateway({ speed: 1 })
    const { terminal, output, signal, exits } = patientTerminal()
    const ended = chat.run(['--url', url, '--model', 'scripted/long', 'Hello'], terminal)
    await untilTrue(() => output() !== '')
    signal('SIGINT')
    expect(await ended).toBe(1)
    expect(output()).toMatch(/\n\(stopped\)\n$/)
    expect(output()).not.toContain('✗')
    expect(gateway.turns.running).toBe(0)
    expect(exits).toEqual([])
  })

  test('exits the process when pressed twice', async () => {
    const { url } = await startGateway({ speed: 1 })
    const { terminal, output, signal, exits } = patientTerminal()
    const ended = chat.run(['--url', url, '--model', 'scripted/long', 'Hello'], terminal)
    await untilTrue(() => output() !== '')
    signal('SIGINT')
    signal('SIGINT')
    expect(exits).toEqual([1])
    await ended
  })

  test('is not intercepted after the answer has ended', async () => {
    const { url } = await startGateway()
    const { terminal, signal } = patientTerminal()
    await chat.run(['--url', url, 'Hello'], terminal)
    expect(signal('SIGINT')).toBe(false)
  })
})

describe('an interactive conversation', PATIENCE, () => {
  async function converse(url: string, lines: (string | undefined)[], args: string[] = []) {
    const prompts: string[] = []
    const made = patientTerminal([], {
      isInteractive: true,
      ask: async (prompt) => {
        prompts.push(prompt)
        return lines.shift()
      },
    })
    const code = await chat.run(['--url', url, ...args], made.terminal)
    return { code, output: made.output(), errors: made.errors(), prompts }
  }

  test('stays in one thread and ends when the user exits', async () => {
    const { url, log } = await startGateway()
    const { code, output, prompts } = await converse(url, ['One', '  ', 'Two', undefined])
    expect([code, prompts.length]).toEqual([0, 4])
    expect(output.split(textOf('answer'))).toHaveLength(3)
    const threads = (await log.listThreads()).items
    expect(threads).toHaveLength(1)
    const [thread] = threads
    expect((await log.listTurns(thread?.threadId ?? '')).items).toHaveLength(2)
    expect(output).toContain(
      `To continue: turnstream chat --url ${url} --thread ${thread?.threadId}\n`,
    )
  })

  test('runs slash commands and does not send them as prompts', async () => {
    const { url, log } = await startGateway()
    const lines = ['/help', '/model scripted/thinking', 'One', '/new', '/nosuch', 'Two', '/quit']
    const { code, output } = await converse(url, lines)
    expect(code).toBe(0)
    expect(output).toContain('/model <model>')
    expect(output).toContain('Unknown command /nosuch. /help lists the commands.')
    expect(output.split(textOf('thinking'))).toHaveLength(3)
    const threads = (await log.listThreads()).items
    expect(threads).toHaveLength(2)
    for (const { threadId } of threads) {
      expect((await log.listTurns(threadId)).items).toHaveLength(1)
    }
  })

  test('sends a path that starts with a slash as a prompt', async () => {
    const { url, log } = await startGateway()
    await converse(url, ['/etc/passwd', undefined])
    expect((await log.listThreads()).items).toHaveLength(1)
  })

  test.each([[[]], [['Hello']]])('refuses a thread that does not exist: %j', async (args) => {
    const { url, log } = await startGateway()
    const { code, errors } = await converse(url, ['One'], ['--thread', 'nosuch', ...args])
    expect(code).toBe(1)
    expect(errors).toContain('Thread nosuch does not exist. Leave out --thread to start a new one.')
    expect((await log.listThreads()).items).toEqual([])
  })

  test('exits with 1 when the last answer was lost', async () => {
    const { url } = await serverWith(
      (response) => {
        response.writeHead(200, { 'content-type': 'application/json' })
        response.end('{"runId":"r","turnId":"t","threadId":"h"}')
      },
      (response) => {
        response.writeHead(202, { 'content-type': 'application/json' })
        response.end('{"runId":"r","turnId":"t","threadId":"h"}')
      },
      (response) => response.writeHead(204).end(),
    )
    const { code, errors } = await converse(url, ['One', undefined])
    expect(code).toBe(1)
    expect(errors).toMatch(/the stream of turn \S+ ended before the turn did/)
  })

  test('continues after a rejected prompt', async () => {
    const { url } = await startGateway()
    const { code, errors, output } = await converse(url, ['x'.repeat(5_000_000), 'Two', undefined])
    expect(code).toBe(0)
    expect(errors).toContain('turnstream: The request body is too large')
    expect(output).toContain(textOf('answer'))
  })

  test('does not start without a gateway', async () => {
    const { code, errors, prompts } = await converse(`http://127.0.0.1:${await freePort()}`, [])
    expect([code, prompts.length]).toEqual([1, 0])
    expect(errors).toContain('no gateway at')
  })

  test('prints no thread id when the user exits at once', async () => {
    const { url } = await startGateway()
    const { output } = await converse(url, [undefined])
    expect(output).not.toContain('--thread')
  })
})

describe('errors', PATIENCE, () => {
  test('no gateway: prints the command that starts one', async () => {
    const port = await freePort()
    const { code, errors } = await run(['--url', `http://127.0.0.1:${port}`, 'Hello'])
    expect(code).toBe(1)
    expect(errors).toBe(
      `turnstream: no gateway at http://127.0.0.1:${port}: start one with ` +
        `"turnstream serve --port ${port}", or pass --url\n`,
    )
    const json = await run(['--url', `http://127.0.0.1:${port}`, '--json', 'Hello'])
    expect(JSON.parse(json.output)).toMatchObject({ error: { code: 'GATEWAY_UNREACHABLE' } })
  })

  test('another HTTP server at the URL', async () => {
    const other = await fakeVendor(200, '{"hello":"world"}')
    const { code, errors } = await run(['--url', other.url, 'Hello'])
    expect(code).toBe(1)
    expect(errors).toContain('is not a turnstream gateway')
  })

  test("an invalid thread id, with the gateway's message", async () => {
    const { url } = await startGateway()
    const { code, errors } = await run(['--url', url, '--thread', 'a b', 'Hello'])
    expect(code).toBe(1)
    expect(errors).toMatch(/^turnstream: Invalid request: .*threadId/)
  })

  test.each([
    [['--url', 'gateway'], '--url must be an http:// or https:// URL'],
    [['--url', 'http://127.0.0.1:1'], 'no prompt: pass it as an argument'],
    [['--nonsense'], 'nonsense'],
  ])('%j is a usage error', async (args, message) => {
    await expect(run(args)).rejects.toThrow(message)
  })

  test('an invalid TURNSTREAM_URL', async () => {
    const env = { TURNSTREAM_URL: 'x' }
    await expect(run(['Hello'], '', { env })).rejects.toThrow('TURNSTREAM_URL must be')
  })
})
