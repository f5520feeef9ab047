/** The official client, a gateway, and behind it a vendor's server that answers with what is on record. */

import { readdirSync, readFileSync } from 'node:fs'
import OpenAI, { type ClientOptions } from 'openai'
import { onTestFinished } from 'vitest'
import {
  createAnthropicMessagesProvider,
  createGeminiProvider,
  createOpenaiChatProvider,
  createOpenaiResponsesProvider,
  type HttpProviderOptions,
  type Provider,
} from '../../../src/index.ts'
import { type Answer, startVendor, type VendorServer } from '../../providers/vendor-server.ts'
import { type ServerOptions, startServer, type TestServer } from '../support.ts'

/** By the folder of its fixtures. */
const CREATE = {
  'openai-responses': createOpenaiResponsesProvider,
  'anthropic-messages': createAnthropicMessagesProvider,
  'openai-chat': createOpenaiChatProvider,
  gemini: createGeminiProvider,
} satisfies Record<string, (options: HttpProviderOptions) => Provider>

export type VendorName = keyof typeof CREATE

export const VENDORS = ['openai-responses', 'anthropic-messages', 'openai-chat'] as const

export interface Stage {
  readonly server: TestServer
  readonly vendor: VendorServer
  readonly client: OpenAI
  /** What the vendor was asked last. */
  // oxlint-disable-next-line typescript/no-explicit-any -- what it holds is what the test is about
  readonly asked: (index?: number) => any
}

/** Answers with fixtures of a vendor, one after another. */
export function fixtures(vendor: VendorName, ...names: string[]): Answer {
  return (response, _request, count) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(fixture(vendor, names[count - 1] ?? names.at(-1) ?? ''))
  }
}

export function fixture(vendor: VendorName, name: string): string {
  return readFileSync(`test/fixtures/${vendor}/${name}.sse`, 'utf8')
}

export function fixtureNames(vendor: VendorName): string[] {
  return readdirSync(`test/fixtures/${vendor}`).map((file) => file.replace(/\.sse$/, ''))
}

/** A gateway whose provider `vendor` calls a server that answers so. */
export async function stage(
  name: VendorName,
  answer: Answer,
  options: ServerOptions & { readonly provider?: HttpProviderOptions } = {},
): Promise<Stage> {
  const { provider: more = {}, ...rest } = options
  const vendor = await startVendor(answer)
  onTestFinished(() => vendor.close())
  const provider = CREATE[name]({
    id: 'vendor',
    apiKey: 'sk-secret',
    baseUrl: vendor.url,
    maxRetries: 0,
    ...more,
  })
  const server = await startServer({ more: [provider], ...rest })
  const asked = (index = -1): unknown => JSON.parse(vendor.bodies.at(index) ?? 'null')
  return { server, vendor, client: clientOf(server), asked }
}

export function clientOf({ url }: { readonly url: string }, options: ClientOptions = {}): OpenAI {
  return new OpenAI({ apiKey: 'any', baseURL: `${url}/v1`, maxRetries: 0, ...options })
}

export const HELLO = [{ role: 'user' as const, content: 'Hello' }]

/** The rest of every request to the vendor. */
export const ASK = { model: 'vendor/m', messages: HELLO }

/** Sends a body as it is; answers with the status, the headers and the body. */
export async function post(
  { url }: { readonly url: string },
  body: unknown,
  headers: Record<string, string> = {},
) {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text }
}

/** The data of the frames of a stream. */
export function dataOf(text: string): string[] {
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => data)
}
