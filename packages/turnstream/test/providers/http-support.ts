/** Providers over HTTP against a server that a test tells what to do. */

import { onTestFinished } from 'vitest'
import type { FakeClock } from '../../../conformance/src/index.ts'
import type { VendorRequest } from '../../../core/src/formats/vendor-request.ts'
import {
  type ProviderRequest,
  type StreamEvent,
  type StreamEventPayload,
  stamp,
  translateOpenaiChat,
} from '../../../core/src/index.ts'
import type { Provider } from '../../src/index.ts'
import { type HttpProviderOptions, httpProvider } from '../../src/providers/http-provider.ts'
import { type Answer, startVendor, type VendorServer } from './vendor-server.ts'

export const TEXT = '{"model":"m","choices":[{"index":0,"delta":{"content":"Hello"}}]}'
export const STOP = '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
export const request: ProviderRequest = { model: 'm', input: [] }
export const run = { runId: 'run', turnId: 'turn', threadId: 'thread' }

export interface Setup {
  provider: Provider
  server: VendorServer
}

/** A provider whose retries wait on a clock that stands still unless the test moves it. */
export async function setUp(answer: Answer, options: HttpProviderOptions = {}): Promise<Setup> {
  const server = await startVendor(answer)
  onTestFinished(() => server.close())
  const buildRequest = ({ model }: ProviderRequest) => ({
    ...{ url: server.url, headers: {}, body: { model } },
  })
  const provider = httpProvider(vendorOf(buildRequest), options)
  return { provider, server }
}

/** A vendor that is called as the test says and answers like Chat Completions. */
export function vendorOf(buildRequest: (request: ProviderRequest) => VendorRequest) {
  return { id: 'test', buildRequest, createTranslation: translateOpenaiChat }
}

export async function collect(payloads: AsyncIterable<StreamEventPayload>): Promise<StreamEvent[]> {
  const all: StreamEvent[] = []
  for await (const event of stamp(payloads, run)) all.push(event)
  return all
}

/** Moves a clock on until the stream has ended. */
export async function collectWith(
  clock: FakeClock,
  payloads: AsyncIterable<StreamEventPayload>,
): Promise<StreamEvent[]> {
  let isOver = false
  const all = collect(payloads).finally(() => {
    isOver = true
  })
  while (!isOver) await clock.advance(1000)
  return all
}

export const last = (events: StreamEvent[]) => events.at(-1)?.payload
