/** What a new item type gets from its checks alone: see "Add an item type" in CONTRIBUTING.md. */

import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { toInput } from '../../../core/src/formats/responses/request-out.ts'
import { stepsOf } from '../../../core/src/formats/vendor-request.ts'
import {
  type OutputItem,
  ResponseReducer,
  type StreamEventPayload,
} from '../../../core/src/index.ts'
import { ITEM_CHECKS } from '../../../core/src/protocol/stream-event-guard.ts'
import { answer, end } from './payloads.ts'
import { eventsOf, newRig, outputsOf } from './rig.ts'

const isString = (value: unknown) => typeof value === 'string'
const MESSAGE = { type: 'message', id: 'r:1', content: 'Look', origin: 'agent' } as const

const toy = (colour: unknown) =>
  ({ type: 'item_done', item_id: 't', final_item: { type: 'toy', id: 't', colour } }) as never

async function run(item: StreamEventPayload) {
  const rig = newRig({ rounds: [[...answer('1', 'Look'), item, end()]] })
  await rig.submit()
  await rig.settled()
  return rig
}

beforeEach(() => {
  Object.assign(ITEM_CHECKS, { toy: [{ id: isString, colour: isString }] })
  onTestFinished(() => {
    Reflect.deleteProperty(ITEM_CHECKS, 'toy')
  })
})

test('a toy is stored under an id of the turn, and is part of the response', async () => {
  const { log } = await run(toy('red'))
  const reducer = new ResponseReducer()
  for (const event of await eventsOf(log)) reducer.apply(event)
  const [, ...items] = reducer.response.output_items
  expect(items).toEqual([MESSAGE, { type: 'toy', id: 'r:2', colour: 'red' }])
})

test('a malformed toy fails the turn', async () => {
  const { log } = await run(toy(7))
  const last = (await eventsOf(log)).at(-1)
  expect(last?.payload).toMatchObject({ error: { code: 'UPSTREAM_MALFORMED' } })
})

test('a toy has no snapshot, and no vendor is sent it', async () => {
  const { log } = await run(toy('red'))
  const types = (await outputsOf(log)).map(({ type }) => type)
  expect(types).toEqual(['turn_started', 'message', 'message', 'turn_complete'])
  const items = [MESSAGE, { type: 'toy', id: 'r:2', colour: 'red' }] as unknown as OutputItem[]
  const ownership = { namespace: 'vendor', responseField: 'id' }
  expect(stepsOf(items, ownership)).toEqual([{ from: 'agent', items: [MESSAGE] }])
  expect(toInput(items)).toHaveLength(1)
})
