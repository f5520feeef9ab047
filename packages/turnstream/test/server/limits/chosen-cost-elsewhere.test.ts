/** The places of `chosen-cost.test.ts` whose bounds are exceeded by tests of their own: each is still there. */

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

/** By place: the test that exceeds its bound. */
const PLACES: Record<string, readonly [file: string, title: string]> = {
  'parsing: invalid bodies of a key': [
    'server/limits/json-bounds.test.ts',
    'counts against its key, and further ones are not read: %s',
  ],
  'parsing: pipelined requests': [
    'server/limits/pipelined.test.ts',
    'a connection that pipelines ten times as many requests as it may is closed',
  ],
  'parsing: connections': [
    'server/limits/crowd.test.ts',
    'existing clients are served, and new ones when some leave',
  ],
  'validation: arguments with a regular expression': [
    'turns/arguments-checker.test.ts',
    'ends at its limit, while other work runs',
  ],
  'validation: arguments of a call': [
    'turns/caps.test.ts',
    'end a call with ten times the arguments that are allowed by default',
  ],
  'unknown names: of tools': [
    '../../core/test/formats/responses/tool-names.test.ts',
    'names that are taken cost a few steps each: %s',
  ],
  'unknown names: comparison with known ones': [
    '../../core/test/protocol/nearest.test.ts',
    'a name of ten times the length that is compared is not compared',
  ],
  'tool schemas: references to tools': [
    '../../core/test/formats/request-tools.test.ts',
    'thousands of references to thousands of tools read each tool a few times',
  ],
  'replay: unread streams': [
    'server/limits/unread-streams.test.ts',
    'unread streams hold no more than their key may leave unread: $path',
  ],
  'replay: a long frame in a page': [
    '../../client/test/client/sse.test.ts',
    'a long frame in small pieces is searched once',
  ],
  'replay: unread responses': [
    'server/limits/unsent-bytes.test.ts',
    'is refused while earlier responses of the key are unread, but not for another key',
  ],
  'replay: concurrent reads': [
    'server/limits/read-limits.test.ts',
    'are refused above the limit and allowed again when one ends',
  ],
  'encoding: snapshots of a long answer': [
    'turns/long-answer.test.ts',
    'the snapshots of a long answer encode a constant multiple of its text: $name',
  ],
  'markdown: blocks and formulas': [
    'web/markdown.test.ts',
    'has bounded depth and linear work: %s',
  ],
  'markdown: highlighted code': ['web/markdown.test.ts', 'of bounded length and number: %s'],
  'tools: bytes of an HTTP response': [
    'tools/http-tool.test.ts',
    'an output that is too large is a failure, however it is sent',
  ],
  'codex: output of a command': [
    'codex/output-limits.test.ts',
    'keeps the beginning and the end of its output',
  ],
  'codex: lines of its log': [
    'codex/log-lines.test.ts',
    'are cut when they are too long, and take no memory beyond that',
  ],
  'MCP: notifications of a local server': [
    'tools/mcp-stdio.test.ts',
    'a flood of notifications is read 4 KB in each iteration of the event loop',
  ],
  'MCP: notifications of a remote server': [
    'tools/mcp-http.test.ts',
    'a flood of notifications is read 4 KB in each iteration of the event loop',
  ],
}

test.each(Object.entries(PLACES))('%s', (_place, [file, title]) => {
  const text = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
  expect(text.split('\n').filter((line) => line.includes(`'${title}'`))).toHaveLength(1)
})
