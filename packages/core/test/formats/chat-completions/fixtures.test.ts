import { describe, expect, test } from 'vitest'
import { checkPayloads, fixtureEvents, fixtureNames, outcomesOf } from '../outcome.ts'
import { translate } from './chunks.ts'
import { callRows } from './rows-calls.ts'
import { endRows } from './rows-endings.ts'
import { textRows } from './rows-texts.ts'

const rows = [...callRows, ...textRows, ...endRows]

describe('a Chat Completions stream', () => {
  test.each(rows)('%s: %s', (fixture, _, ...outcomes) => {
    const payloads = translate(fixtureEvents('openai-chat', fixture))
    expect(outcomesOf(payloads)).toEqual(outcomes)
    checkPayloads(payloads)
  })

  test('every fixture has its row', () => {
    const names = rows.map(([fixture]) => fixture)
    expect(names.toSorted()).toEqual(fixtureNames('openai-chat').toSorted())
  })

  test.each(rows)('%s ends once after any of its events', (fixture) => {
    const events = fixtureEvents('openai-chat', fixture)
    for (let length = 0; length <= events.length; length++) {
      checkPayloads(translate(events.slice(0, length)))
    }
  })
})
