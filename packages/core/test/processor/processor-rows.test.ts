import { describe, expect, test } from 'vitest'
import { argumentRows } from './rows-arguments.ts'
import { itemRows } from './rows-items.ts'
import { tcRows } from './rows-tc.ts'
import { thresholdRows } from './rows-thresholds.ts'
import { turnRows } from './rows-turn.ts'
import { type Outcome, type Row, runProcessor, runRules } from './scenario.ts'

function check(row: Row, { shown, reported }: Outcome): void {
  expect(shown).toHaveLength(row.shows.length)
  for (const [index, expected] of row.shows.entries()) expect(shown[index]).toMatchObject(expected)
  expect(reported).toEqual(row.reports ?? [])
}

const rows = [...tcRows, ...thresholdRows, ...itemRows, ...argumentRows, ...turnRows]

describe.each(rows)('$name', (row) => {
  test('by the rules', () => check(row, runRules(row)))
  test('by the processor', async () => check(row, await runProcessor(row)))
})

test('both ways emit exactly the same', async () => {
  for (const row of rows) expect(await runProcessor(row)).toEqual(runRules(row))
})
