/** Servers whose metrics are read, and turns that come to their end on them. */

import type { StreamEvent } from '../../../../core/src/index.ts'
import { createScriptedProvider } from '../../../src/index.ts'
import type { TestServer } from '../support.ts'
import { parseExposition } from './exposition.ts'

export async function scrape({ url }: Pick<TestServer, 'url'>, headers = {}) {
  const response = await fetch(`${url}/metrics`, { headers })
  return parseExposition(await response.text()).samples
}

/** Resolves when no turn runs any more: by then all that is counted of one is counted. */
export async function idle({ gateway }: TestServer): Promise<void> {
  while (gateway.turns.running > 0) await macrotask()
}

export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await macrotask()
}

function macrotask(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

/** Answers everything with an error of this code. */
export function failingProvider(code: string) {
  const ids = { response_id: 'x', turn_id: 't', thread_id: 'h' }
  const names = { model_id: 'm', provider_id: 'failing', created_at: 0 }
  const payloads = [
    { type: 'response_start', ...ids, ...names },
    { type: 'response_error', response_id: 'x', error: { code, message: 'no' } },
  ]
  const recording = payloads.map((payload, index) => ({
    ...{ event_id: `e${index}`, timestamp: 0, trace_context: { traceparent: '' }, run_id: 'r' },
    ...{ type: payload.type, payload },
  })) as StreamEvent[]
  return createScriptedProvider({ id: 'failing', recordings: { m: recording }, speed: Infinity })
}
