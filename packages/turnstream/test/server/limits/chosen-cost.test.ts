/**
 * Every place where the bytes of a caller, a vendor or a tool decide how much we do or hold: its bound, and what ten times
 * the bound costs. Steps and bytes are counted; `bench/growth.mjs` measures time. Places with a test of their own are in
 * `chosen-cost-elsewhere.test.ts`.
 */

import { createHash } from 'node:crypto'
import { Validator } from '@cfworker/json-schema'
import { expect, test } from 'vitest'
import { MAX_ATTACHMENTS } from '../../../../core/src/formats/content-parts.ts'
import { MAX_CHARS, MAX_FAULTS } from '../../../../core/src/formats/request-errors.ts'
import {
  IgnoredNames,
  MAX_NAMES,
  MAX_SCHEMA_CHARS,
} from '../../../../core/src/formats/request-in.ts'
import { MAX_INPUT_ITEMS } from '../../../../core/src/formats/responses/schemas.ts'
import { SseDecoder, SseLimitError } from '../../../../core/src/index.ts'
import {
  MAX_JSON_NESTING,
  MAX_JSON_VALUES,
  parseJsonObject,
} from '../../../../core/src/protocol/json.ts'
import { OutputEncoder } from '../../../../core/src/protocol/output-codec.ts'
import { BodyParts, MAX_PART_BYTES } from '../../../src/server/body-parts.ts'
import { MAX_JSON_MEMBERS } from '../../../src/server/json-bounds.ts'
import { MAX_RETURNED, repetitionKeys } from '../../../src/server/openai/returned-items.ts'
import { MAX_RUNS, storedReasoning } from '../../../src/server/openai/stored-reasoning.ts'
import { PART_BYTES } from '../../../src/server/request-body.ts'
import { MAX_IGNORED_CHARS } from '../../../src/server/routes/vendor-turns.ts'
import { MAX_THREADS } from '../../../src/server/streams/threads-stream.ts'
import { MAX_UNPAIRED } from '../../../src/server/unpaired-surrogates.ts'
import { MemoryLog } from '../../../src/server.ts'
import { MAX_LINES, MAX_TOOLS, StderrLines } from '../../../src/tools/mcp-tools.ts'
import { MAX_KEYS, ThreadChain } from '../../../src/turns/thread-chain.ts'
import { checkQuickly, MAX_STEPS } from '../../../src/turns/tool-arguments.ts'
import { findSchemaFault, MAX_DEPTH } from '../../../src/turns/tool-schema.ts'
import { delta, done, end, open } from '../../turns/payloads.ts'
import { newRig, PROMPT, readLog, storyOf, tick } from '../../turns/rig.ts'
import { call, startServer } from '../support.ts'
import {
  CHAT,
  connectTools,
  count,
  decodeCassette,
  fields,
  IMAGE,
  KB,
  nested,
  one,
  post,
  type Row,
  readOf,
  times,
  turnsOf,
} from './chosen-cost-support.ts'

/** Settings of the rows whose defaults are too large for a quick test. */
const BODY_BYTES = 64 * KB
const HISTORY_BYTES = 20 * KB
const TEXT_CHARS = 10 * KB
const LINE_CHARS = 10 * KB
const LINES = 100

/** A chunk of a socket, after which nothing more is looked at. */
const CHUNK = 64 * KB

const ROWS: Record<string, Row> = {
  'parsing: values of a body': {
    bound: MAX_JSON_VALUES,
    unit: 'bytes read or parsed',
    feed: (size) => readOf(`{"prompt":[${'0,'.repeat(size)}0]}`),
    most: 2 * MAX_JSON_VALUES + 2 * CHUNK,
    code: 'REQUEST_INVALID',
  },
  'parsing: fields of an object': {
    bound: MAX_JSON_MEMBERS,
    unit: 'bytes read or parsed',
    feed: (size) => readOf(fields(size)),
    most: 12 * MAX_JSON_MEMBERS + 2 * CHUNK,
    code: 'REQUEST_INVALID',
  },
  'parsing: levels of a body': {
    bound: MAX_JSON_NESTING,
    unit: 'bytes read or parsed',
    feed: (size) => readOf(`{"prompt":${'['.repeat(size)}${']'.repeat(size)}}`),
    // One small chunk is read, and nothing is parsed.
    most: 20 * MAX_JSON_NESTING + 20,
    code: 'REQUEST_INVALID',
  },
  'parsing: values of arguments and outputs': {
    bound: MAX_JSON_VALUES,
    unit: 'characters parsed',
    feed: (size) => {
      const parsed = count(JSON, 'parse', ({ length }: string) => length)
      const object = parseJsonObject(`{"list":[${'0,'.repeat(size)}0]}`)
      return { spent: parsed(), code: typeof object }
    },
    most: 0,
    code: 'undefined',
  },
  'parsing: bytes of a body': {
    bound: BODY_BYTES,
    unit: 'bytes read or parsed',
    feed: (size) => readOf({ prompt: 'x'.repeat(size) }, { maxBodyBytes: BODY_BYTES }),
    most: BODY_BYTES,
    code: 'BODY_TOO_LARGE',
  },
  'parsing: chunks of a body': {
    bound: MAX_PART_BYTES,
    unit: 'parts held',
    feed: (size) => {
      const parts = new BodyParts()
      for (let at = 0; at < size; at++) parts.add(Uint8Array.of(at % 256))
      const spent = parts.count
      const bytes = parts.drain()
      expect(bytes).toHaveLength(size)
      expect(bytes.every((byte, at) => byte === at % 256)).toBe(true)
      return { spent }
    },
    most: 10,
  },
  'parsing: unpaired surrogates': {
    bound: MAX_UNPAIRED,
    unit: 'bytes parsed',
    feed: async (size) => {
      const text = `{"prompt":"${String.raw`\ud800`.repeat(size)}"}`
      const { parsed, code } = await post('/api/v2/submit', text)
      return { spent: parsed, code }
    },
    most: 0,
    code: 'REQUEST_INVALID',
  },
  'parsing: bytes decoded at once': {
    bound: PART_BYTES,
    unit: 'bytes',
    feed: async (size) => {
      let most = 0
      count(TextDecoder.prototype, 'decode', ({ length }: Uint8Array) => {
        most = Math.max(most, length)
        return length
      })
      await post('/v1/chat/completions', { ...CHAT, x: '漢'.repeat(size / 3) })
      expect(most).toBeGreaterThan(0)
      return { spent: most }
    },
    // Up to the end of a character.
    most: PART_BYTES + 2,
  },
  'validation: faults of a request': {
    bound: MAX_FAULTS,
    unit: 'bytes of the response',
    feed: async (size) => {
      const history = times(size, () => ({ ['x'.repeat(10 * MAX_CHARS)]: 1 }))
      const { answer, code } = await post('/api/v2/submit', { prompt: 'Hi', history })
      return { spent: answer.length, code }
    },
    most: (MAX_FAULTS + 2) * (2 * MAX_CHARS + 50),
    code: 'REQUEST_INVALID',
  },
  'unknown names: of a request': {
    bound: MAX_NAMES,
    unit: 'names taken',
    feed: async (size) => {
      const taken = count(IgnoredNames.prototype, 'add', one)
      await post('/v1/chat/completions', { ...CHAT, ...fields(size) })
      expect(taken()).toBeGreaterThan(0)
      return { spent: taken() }
    },
    most: MAX_NAMES,
  },
  'unknown names: characters': {
    bound: MAX_IGNORED_CHARS,
    unit: 'characters of the header',
    feed: async (size) => {
      const names = times(MAX_NAMES, (at) => [`${at}`.padEnd(size / MAX_NAMES, 'x'), 1])
      const body = { ...CHAT, ...Object.fromEntries(names) }
      const { response } = await post('/v1/chat/completions', body)
      return { spent: response.headers.get('x-turnstream-ignored')?.length ?? Infinity }
    },
    most: MAX_IGNORED_CHARS,
  },
  'validation: items of a request': {
    bound: MAX_INPUT_ITEMS,
    unit: 'turns',
    feed: (size) => {
      // Items of unknown types are ignored: larger ones would exceed the values of a body first.
      const input = [{ role: 'user', content: 'Hi' }, ...times(size, () => ({ type: 'x' }))]
      return turnsOf('/v1/responses', { input })
    },
    most: 0,
    code: 'invalid_value',
  },
  'validation: images of a request': {
    bound: MAX_ATTACHMENTS,
    unit: 'turns',
    feed: (size) => {
      const content = times(size, () => ({ type: 'image_url', image_url: { url: IMAGE } }))
      return turnsOf('/v1/chat/completions', { messages: [{ role: 'user', content }] })
    },
    most: 0,
    code: 'invalid_value',
  },
  'validation: threads of one stream': {
    bound: MAX_THREADS,
    unit: 'reads of the log',
    feed: async (size) => {
      const server = await startServer()
      const reads = count(server.log, 'getThread', one)
      const query = times(size, (at) => `threads=t${at}`).join('&')
      const { json } = await call(server, `GET /xapi/streams?${query}`)
      return { spent: reads(), code: (json as { error: { code: string } }).error.code }
    },
    most: 0,
    code: 'REQUEST_INVALID',
  },
  'hashing: keys of a repeated request': {
    bound: MAX_RETURNED,
    unit: 'hashes',
    feed: async (size) => {
      const input = times(size, () => ({ type: 'message', role: 'assistant', content: 'Hi' }))
      const hash = createHash('sha256')
      const updates = count(hash, 'update', one)
      const copies = count(hash, 'copy', one)
      const keys = await repetitionKeys(hash, { model: 'm', input }, true)
      expect(keys).toHaveLength(MAX_RETURNED + 1)
      return { spent: updates() + copies() }
    },
    // Each item once, and a copy for each key.
    most: 10 * MAX_RETURNED + 1 + MAX_RETURNED,
  },
  'hashing: turns that a conversation may continue': {
    bound: MAX_KEYS,
    unit: 'keys that are looked up',
    feed: async (size) => {
      const items = times(size, () => [
        { type: 'message', origin: 'user', content: 'Hi' } as const,
        { type: 'message', origin: 'agent', content: 'Hello' } as const,
      ])
      return { spent: (await ThreadChain.read(items.flat())).keys.length }
    },
    most: MAX_KEYS,
  },
  'history: reasoning by id': {
    bound: MAX_RUNS,
    unit: 'reads of the log',
    feed: async (size) => {
      const log = new MemoryLog()
      const reads = count(log, 'getTurnOfRun', one)
      await storedReasoning(
        log,
        times(size, (at) => ({ type: 'reasoning', id: `rs_run${at}-1` })),
      )
      expect(reads()).toBeGreaterThan(0)
      return { spent: reads() }
    },
    most: MAX_RUNS,
  },
  'history: bytes of a thread': {
    bound: HISTORY_BYTES,
    unit: 'bytes sent to the provider',
    feed: async (size) => {
      const text = 'x'.repeat(KB)
      const round = [open('a'), delta('a', text), done('a', text), end()]
      const rounds = times(size / KB + 1, () => round)
      const rig = newRig({ rounds, caps: { maxHistoryBytes: HISTORY_BYTES } })
      for (const [at] of rounds.entries()) {
        await rig.submit({ runId: `r${at}`, threadId: 'h', input: [PROMPT] })
        await tick(rig.clock)
        await rig.settled()
      }
      const sent = rig.provider.calls.at(-1)?.request.input ?? []
      const last = JSON.stringify(sent).length
      expect(last).toBeGreaterThan(HISTORY_BYTES / 2)
      return { spent: last }
    },
    most: HISTORY_BYTES,
  },
  "encoding: characters of a vendor's answer": {
    bound: TEXT_CHARS,
    unit: 'characters stored',
    feed: async (size) => {
      const said = times(size / KB, () => delta('a', 'x'.repeat(KB)))
      const rig = newRig({ rounds: [[open('a'), ...said]], caps: { maxTurnChars: TEXT_CHARS } })
      await rig.submit()
      await rig.settled()
      const [code = ''] = (await storyOf(rig.log)).slice(-1)
      return { spent: (await readLog(rig.log, 'r', 'events')).join('').length, code }
    },
    // The text, and the fields of ten deltas and of the other events.
    most: TEXT_CHARS + 30 * 300,
    code: 'end TURN_TEXT_LIMIT',
  },
  'encoding: snapshots of a growing text': {
    bound: 10 * KB,
    unit: 'characters escaped',
    feed: (size) => {
      const escaped = count(JSON, 'stringify', (value: unknown) =>
        typeof value === 'string' ? value.length : 0,
      )
      const encoder = new OutputEncoder()
      const ids = { turnId: 't', threadId: 'h', itemId: 'i', status: 'update' } as const
      for (let chars = KB; chars <= size; chars += KB) {
        encoder.encode({ type: 'message', origin: 'agent', ...ids, content: 'x'.repeat(chars) })
      }
      return { spent: escaped() }
    },
    // The text once, however many snapshots of it there are.
    most: 100 * KB,
  },
  'vendor streams: characters of a line': {
    bound: LINE_CHARS,
    unit: 'characters fed',
    feed: (size) => {
      const decoder = new SseDecoder({ maxLineChars: LINE_CHARS })
      const chunk = new TextEncoder().encode('x'.repeat(10))
      let fed = 0
      try {
        for (; fed < size; fed += 10) decoder.feed(chunk)
      } catch (error) {
        return { spent: fed, code: error instanceof SseLimitError ? error.limit : 'other' }
      }
      return { spent: fed }
    },
    most: LINE_CHARS + 10,
    code: 'maxLineChars',
  },
  'tool schemas: characters': {
    bound: MAX_SCHEMA_CHARS,
    unit: 'turns',
    feed: (size) => {
      const parameters = { type: 'object', description: 'x'.repeat(size) }
      const tools = [{ type: 'function', name: 'look', parameters }]
      return turnsOf('/v1/responses', { input: 'Hi', tools })
    },
    most: 0,
    code: 'invalid_value',
  },
  'tool schemas: levels': {
    bound: MAX_DEPTH,
    unit: 'levels read',
    feed: (size) => {
      let reads = 0
      const fault = findSchemaFault(nested(size, () => (reads += 1)))
      return { spent: reads, code: fault?.slice(0, 11) }
    },
    most: 2 * MAX_DEPTH,
    code: 'nested more',
  },
  'tool arguments: checked on the event loop': {
    bound: MAX_STEPS,
    unit: 'validations on the event loop',
    feed: (size) => {
      const validations = count(Validator.prototype, 'validate', one)
      const schema = { type: 'object', properties: { list: { type: 'array' } } }
      const args = { list: 'x'.repeat(size / JSON.stringify(schema).length) }
      const result = checkQuickly(schema, args, JSON.stringify(args))
      return { spent: validations(), code: typeof result }
    },
    most: 0,
    code: 'undefined',
  },
  'MCP: tools of a server': {
    bound: MAX_TOOLS,
    unit: 'tools',
    feed: async (size) => ({ spent: (await connectTools(size, KB)).tools.length }),
    most: MAX_TOOLS,
  },
  'MCP: bytes of an output': {
    bound: KB,
    unit: 'bytes of the result',
    feed: async (size) => {
      const { tools } = await connectTools(1, KB)
      const { signal } = new AbortController()
      const context = { turnId: 't', threadId: 'h', callId: 'c', signal }
      try {
        return { spent: String(await tools[0]?.execute({ outputBytes: size }, context)).length }
      } catch (error) {
        return { spent: 0, code: (error as Error).message }
      }
    },
    most: 0,
    code: `the output exceeds ${KB} bytes`,
  },
  'MCP: lines of standard error': {
    bound: MAX_LINES,
    unit: 'lines passed on',
    feed: (size) => {
      let lines = 0
      const stderr = new StderrLines(() => {
        lines += 1
      })
      for (let line = 0; line < size; line++) stderr.add('a line\n')
      return { spent: lines }
    },
    most: MAX_LINES + 1,
  },
  'cassettes: lines': {
    bound: LINES,
    unit: 'characters parsed',
    feed: (size) =>
      decodeCassette(
        { maxLines: LINES },
        times(size, () => '{"at":1}'),
      ),
    most: LINES * 100,
    code: 'CASSETTE_TOO_LARGE',
  },
  'cassettes: bytes': {
    bound: 10 * KB,
    unit: 'characters parsed',
    feed: (size) =>
      decodeCassette(
        { maxBytes: 10 * KB },
        times(size / 9, () => '{"at":1}'),
      ),
    most: 10 * KB,
    code: 'CASSETTE_TOO_LARGE',
  },
  'cassettes: characters of a line': {
    bound: LINE_CHARS,
    unit: 'characters parsed',
    feed: (size) =>
      decodeCassette({ maxLineChars: LINE_CHARS }, [`{"at":1,"x":"${'x'.repeat(size)}"}`]),
    most: LINE_CHARS,
    code: 'CASSETTE_TOO_LARGE',
  },
}

test.each(Object.entries(ROWS))('%s', async (_place, { bound, unit, feed, most, code }) => {
  const cost = await feed(10 * bound)
  expect(cost.code).toBe(code)
  expect(cost.spent, unit).toBeLessThanOrEqual(most)
})
