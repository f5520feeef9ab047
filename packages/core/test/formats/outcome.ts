/** What a translation came to, in a form that a row of a table can say. */

import { readdirSync, readFileSync } from 'node:fs'
import { parse } from 'node:path'
import { expect } from 'vitest'
import { EventStamp } from '../../src/formats/event-stamp.ts'
import { VendorInput } from '../../src/formats/vendor-input.ts'
import {
  isStreamEvent,
  type ReducedResponse,
  ResponseReducer,
  type StreamEventPayload,
} from '../../src/index.ts'

export interface Outcome {
  items: string[]
  /** The finish reason and the vendor's own word for it, or the code and the message of the error. */
  end: string
}

/** A fixture, what it shows, and what each of its responses comes to. */
export type Row = [fixture: string, shows: string, ...outcomes: Outcome[]]

/** The names of all fixtures of a vendor. */
export function fixtureNames(vendor: string): string[] {
  return readdirSync(`test/fixtures/${vendor}`).map((file) => parse(file).name)
}

/** The vendor events of a fixture. */
export function fixtureEvents(vendor: string, name: string): unknown[] {
  const events: unknown[] = []
  const input = new VendorInput((event) => events.push(event))
  input.feed(readFileSync(`test/fixtures/${vendor}/${name}.sse`))
  input.end()
  expect(input.fault).toBe(undefined)
  return events
}

/** One Response for each response in the payloads. */
export function responsesOf(payloads: readonly StreamEventPayload[]): ReducedResponse[] {
  const stamp = new EventStamp({ now: () => 0 })
  const reducers: ResponseReducer[] = []
  for (const payload of payloads) {
    if (payload.type === 'response_start') reducers.push(new ResponseReducer())
    reducers.at(-1)?.apply(stamp.stamp(payload))
  }
  return reducers.map(({ response }) => response)
}

export function onlyResponseOf(payloads: readonly StreamEventPayload[]): ReducedResponse {
  const [response, ...others] = responsesOf(payloads)
  if (response === undefined || others.length > 0) throw new Error('not one response')
  return response
}

export function outcomesOf(payloads: readonly StreamEventPayload[]): Outcome[] {
  return responsesOf(payloads).map((response) => ({
    items: response.output_items.map(describeItem),
    end: describeEnd(response),
  }))
}

function describeItem(item: ReducedResponse['output_items'][number]): string {
  const broken = item.error === undefined ? '' : ` !${item.error.code}`
  switch (item.type) {
    case 'message':
    case 'reasoning':
      return `${item.type} ${item.content}${broken}`
    case 'function_call':
      return `call ${item.call_id} ${item.name} ${item.arguments}${broken}`
    case 'function_call_output':
      return `output ${item.call_id} ${item.success ? 'ok' : 'failed'} ${item.output}${broken}`
    default:
      return item.type
  }
}

function describeEnd({
  status,
  error,
  finish_reason,
  provider_finish_reason,
}: ReducedResponse): string {
  if (error) return `${status} ${error.code}: ${error.message}`
  return `${status} ${finish_reason} (${provider_finish_reason})`
}

const TERMINALS = new Set(['response_done', 'response_error'])

/** What must hold of any output: well-formed, one end for each response, items opened and ended once. */
export function checkPayloads(payloads: readonly StreamEventPayload[]): void {
  const stamp = new EventStamp({ now: () => 0 })
  const items = new Map<string, 'open' | 'over'>()
  let isRunning = false
  for (const payload of payloads) {
    expect(isStreamEvent(stamp.stamp(payload)), JSON.stringify(payload)).toBe(true)
    expect(isRunning, `${payload.type} at a wrong place`).toBe(payload.type !== 'response_start')
    isRunning = !TERMINALS.has(payload.type)
    if (!isRunning) expect([...items.values()]).not.toContain('open')
    if (!('item_id' in payload)) continue
    const before = payload.type === 'item_start' ? undefined : 'open'
    expect(items.get(payload.item_id), JSON.stringify(payload)).toBe(before)
    const isOpen = payload.type === 'item_start' || payload.type === 'item_delta'
    items.set(payload.item_id, isOpen ? 'open' : 'over')
  }
  expect(isRunning).toBe(false)
  expect(payloads.length).toBeGreaterThan(0)
}
