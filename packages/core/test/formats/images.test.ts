/** Pictures of a message go to each vendor in its own form, after the text, and again with the thread. */

import { describe, expect, test } from 'vitest'
import { buildOpenaiChatRequest } from '../../src/formats/chat-completions/request-out.ts'
import { buildGeminiRequest } from '../../src/formats/gemini/request-out.ts'
import { buildAnthropicMessagesRequest } from '../../src/formats/messages/request-out.ts'
import { buildOpenaiResponsesRequest } from '../../src/formats/responses/request-out.ts'
import type { ProviderRequest } from '../../src/index.ts'
import type { Attachment, OutputItem } from '../../src/protocol/output-item.ts'

const URL_OF = (data: string) => `data:image/png;base64,${data}`

function message(content: string, ...pictures: string[]): OutputItem {
  const attachments = pictures.map((data) => ({
    ...{ type: 'image' as const, media_type: 'image/png', data },
  }))
  return { type: 'message', id: 'm', content, origin: 'user', attachments }
}

type Build = (request: ProviderRequest) => Record<string, unknown>

const VENDORS: Record<
  string,
  [build: Build, text: (t: string) => unknown, image: (d: string) => unknown]
> = {
  'openai-chat': [
    (request) => buildOpenaiChatRequest(request, {}).body,
    (text) => ({ type: 'text', text }),
    (data) => ({ type: 'image_url', image_url: { url: URL_OF(data) } }),
  ],
  'openai-responses': [
    (request) => buildOpenaiResponsesRequest(request).body,
    (text) => ({ type: 'input_text', text }),
    (data) => ({ type: 'input_image', image_url: URL_OF(data), detail: 'auto' }),
  ],
  'anthropic-messages': [
    (request) => buildAnthropicMessagesRequest(request).body,
    (text) => ({ type: 'text', text }),
    (data) => ({ type: 'image', source: { type: 'base64', media_type: 'image/png', data } }),
  ],
  gemini: [
    (request) => buildGeminiRequest(request).body,
    (text) => ({ text }),
    (data) => ({ inlineData: { mimeType: 'image/png', data } }),
  ],
}

/** The parts of the first message of a body. */
function partsOf(body: Record<string, unknown>): unknown {
  const list = (body['messages'] ?? body['input'] ?? body['contents']) as Record<string, unknown>[]
  return list[0]?.['content'] ?? list[0]?.['parts']
}

describe.each(Object.entries(VENDORS))('%s', (_name, [build, text, image]) => {
  const request = (...input: OutputItem[]): ProviderRequest => ({ model: 'm', input })

  test('gets images after their text, in order', () => {
    const parts = partsOf(build(request(message('Look', 'AAAA', 'BBBB'))))
    expect(parts).toEqual([text('Look'), image('AAAA'), image('BBBB')])
  })

  test('gets no empty text beside an image', () => {
    expect(partsOf(build(request(message('', 'AAAA'))))).toEqual([image('AAAA')])
  })
})

const PDF = {
  ...{ type: 'file' as const, media_type: 'application/pdf', data: 'AAAA', filename: 'a.pdf' },
}
const PDF_URL = 'data:application/pdf;base64,AAAA'

const FILES: Record<string, unknown> = {
  'openai-chat': { type: 'file', file: { filename: 'a.pdf', file_data: PDF_URL } },
  'openai-responses': { type: 'input_file', filename: 'a.pdf', file_data: PDF_URL },
  'anthropic-messages': {
    type: 'document',
    source: { type: 'base64', media_type: 'application/pdf', data: 'AAAA' },
    title: 'a.pdf',
  },
  gemini: { inlineData: { mimeType: 'application/pdf', data: 'AAAA' } },
}

describe.each(Object.entries(VENDORS))('%s', (name, [build, text]) => {
  const request = (attachment: Attachment): ProviderRequest => {
    const item = { type: 'message', id: 'm', content: 'Read', origin: 'user' } as const
    return { model: 'm', input: [{ ...item, attachments: [attachment] }] }
  }

  test('gets files after their text', () => {
    expect(partsOf(build(request(PDF)))).toEqual([text('Read'), FILES[name]])
  })

  test('gets a file name where it needs one', () => {
    const { filename: _filename, ...nameless } = PDF
    const body = JSON.stringify(build(request(nameless)))
    expect(body.includes('"file.pdf"')).toBe(name.startsWith('openai'))
  })
})

test('Anthropic is not sent what it does not take', () => {
  const attachments = [{ type: 'file' as const, media_type: 'text/csv', data: 'AAAA' }]
  const item = { type: 'message', id: 'm', content: '', origin: 'user', attachments } as const
  const request: ProviderRequest = { model: 'm', input: [{ ...item, attachments }] }
  expect(() => buildAnthropicMessagesRequest(request)).toThrow(
    'input: Anthropic accepts PDF files only, not text/csv',
  )
})

test('Gemini is not sent unsupported images', () => {
  const gif = { type: 'image' as const, media_type: 'image/gif', data: 'AAAA' }
  const item: OutputItem = {
    type: 'message',
    id: 'm',
    content: '',
    origin: 'user',
    attachments: [gif],
  }
  expect(() => buildGeminiRequest({ model: 'm', input: [item] })).toThrow(
    'input: Gemini does not accept GIF images',
  )
})
