import { describe, expect, test } from 'vitest'
import { checkPayloads, fixtureEvents, fixtureNames, outcomesOf } from '../outcome.ts'
import { translate } from './events.ts'
import { contentRows, endRows } from './rows.ts'

const rows = [...contentRows, ...endRows]

describe('a Gemini stream', () => {
  test.each(rows)('%s: %s', (fixture, _, ...outcomes) => {
    const payloads = translate(fixtureEvents('gemini', fixture))
    expect(outcomesOf(payloads)).toEqual(outcomes)
    checkPayloads(payloads)
  })

  test('every fixture has its row', () => {
    const names = rows.map(([fixture]) => fixture)
    expect(names.toSorted()).toEqual(fixtureNames('gemini').toSorted())
  })

  test.each(rows)('%s ends once after any of its events', (fixture) => {
    const events = fixtureEvents('gemini', fixture)
    for (let length = 0; length <= events.length; length++) {
      checkPayloads(translate(events.slice(0, length)))
    }
  })
})
