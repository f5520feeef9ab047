import { describe, expect, test } from 'vitest'
import * as main from '../../src/index.ts'
import * as testing from '../../src/testing/index.ts'
import { exportedTypesOf } from './sources.ts'

/**
 * What the package promises. A name added here is public from then on; a name removed or renamed
 * breaks users and needs a line under "Removed" or "Changed" in CHANGELOG.md.
 */
const PUBLIC = {
  main: {
    file: 'src/index.ts',
    module: main,
    values: [
      'ContentBuffer',
      'DEFAULT_BATCH_GRADIENT',
      'ERROR_CODES',
      'HEADERS',
      'ROUTES',
      'ResponseReducer',
      'ResponseStream',
      'ResponseStreamError',
      'RetryExhaustedError',
      'SSE_EVENTS',
      'STREAM_EVENT_TYPES',
      'StreamProcessor',
      'TurnstreamError',
      'calculateRetryDelay',
      'contentSchema',
      'decode',
      'decodeStreamEvent',
      'decodeText',
      'estimateTokenCount',
      'generateEventId',
      'initialReducerState',
      'isStreamEvent',
      'outputItemSchema',
      'parseJsonSafe',
      'parseStreamEvent',
      'reduce',
      'responseEventSchema',
      'responseSchema',
      'sleep',
      'streamEventFault',
      'streamEventSchema',
      'streamMessageSchema',
      'streamOutputSchema',
      'systemClock',
      'toResponse',
      'turnEventSchema',
      'usageSchema',
    ],
    types: [
      'BufferInfo',
      'BufferOptions',
      'BufferState',
      'Clock',
      'Content',
      'ContentType',
      'Decoded',
      'DecodedStreamEvent',
      'ErrorCode',
      'ErrorObject',
      'ItemType',
      'Message',
      'MessageOrigin',
      'OutputItem',
      'ProcessorOptions',
      'ReducerState',
      'Response',
      'ResponseEvent',
      'ResponseItem',
      'ResponseStatus',
      'ResponseStreamConfig',
      'Status',
      'StreamEvent',
      'StreamEventPayload',
      'StreamEventType',
      'StreamMessage',
      'StreamOutput',
      'Thinking',
      'ToolCall',
      'TraceContext',
      'TurnComplete',
      'TurnError',
      'TurnEvent',
      'TurnStarted',
      'TurnStatus',
      'UnknownStreamEvent',
      'Usage',
    ],
  },
  testing: {
    file: 'src/testing/index.ts',
    module: testing,
    values: ['fakeClock'],
    types: ['FakeClock'],
  },
}

const ADVICE =
  'the public names changed: if that is meant, update the list in test/repository/exports.test.ts ' +
  'and add a line to CHANGELOG.md'

describe.each(Object.entries(PUBLIC))('the %s entry point', (_name, entry) => {
  test('exports exactly these values', () => {
    expect(Object.keys(entry.module).toSorted(), ADVICE).toEqual(entry.values)
  })

  test('exports exactly these types', () => {
    expect(exportedTypesOf(entry.file), ADVICE).toEqual(entry.types)
  })
})
