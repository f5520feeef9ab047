import type { Attachment } from '../protocol/output-item.ts'

/* Messages with text, images and files. The server fetches nothing, so images and files are data URLs. */

/** Maximum images and files per request, with those of the history: what vendors accept. */
export const MAX_ATTACHMENTS = 100

// The largest size that every vendor accepts.
const MAX_ATTACHMENT_BYTES = 5 * 1024 * 1024

const DATA_URL = /^data:([^;,]{1,100});base64,/i

/** Magic bytes of each type. `?` matches any byte. */
export type Signatures = Readonly<Record<string, string>>

export const IMAGES: Signatures = {
  'image/png': '\u0089PNG',
  'image/jpeg': '\u00ff\u00d8\u00ff',
  'image/gif': 'GIF8',
  'image/webp': 'RIFF????WEBP',
}

export const FILES: Signatures = { 'application/pdf': '%PDF-' }

type ContentPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image_url'; readonly image_url: { readonly url: string } }
  | {
      readonly type: 'file'
      readonly file: { readonly file_data: string; readonly filename?: string | undefined }
    }

interface Content {
  readonly content: string
  readonly attachments?: readonly Attachment[]
}

export function toContents(content: string | readonly ContentPart[]): Content[] {
  if (typeof content === 'string') return [{ content }]
  return groupPieces(content.map((part) => (part.type === 'text' ? part.text : toAttachment(part))))
}

/** Joins texts and attachments to one item, unless text follows an attachment: items have their text first. */
export function groupPieces(pieces: readonly (string | Attachment)[]): Content[] {
  const items: { texts: string[]; attachments: Attachment[] }[] = []
  for (const piece of pieces) {
    let last = items.at(-1)
    if (last === undefined || (typeof piece === 'string' && last.attachments.length > 0)) {
      last = { texts: [], attachments: [] }
      items.push(last)
    }
    if (typeof piece === 'string') last.texts.push(piece)
    else last.attachments.push(piece)
  }
  return items.map(({ texts, attachments }) => ({
    content: joinTexts(texts),
    ...(attachments.length > 0 && { attachments }),
  }))
}

/** Joins text parts as lines: providers have no common form for them. */
export function joinTexts(texts: readonly string[]): string {
  return texts.join('\n')
}

function toAttachment(part: Exclude<ContentPart, { readonly type: 'text' }>): Attachment {
  if (part.type === 'image_url') return { type: 'image', ...parseDataUrl(part.image_url.url) }
  const { file_data, filename } = part.file
  return { type: 'file', ...parseDataUrl(file_data), ...(filename !== undefined && { filename }) }
}

/** Reads an image or a file from a data URL, or returns why it is none. */
export function readDataUrl(type: Attachment['type'], url: unknown): Attachment | string {
  if (typeof url !== 'string') return 'must be a data URL'
  return dataUrlFault(url, type === 'image' ? IMAGES : FILES) ?? { type, ...parseDataUrl(url) }
}

function parseDataUrl(url: string): { media_type: string; data: string } {
  const [prefix = '', type = ''] = DATA_URL.exec(url) ?? []
  const name = type.toLowerCase()
  const media_type = name === 'image/jpg' ? 'image/jpeg' : name
  return { media_type, data: url.slice(prefix.length) }
}

/** Why a URL is not data of one of these types. */
export function dataUrlFault(url: string, signatures: Signatures): string | undefined {
  const [first = ''] = Object.keys(signatures)
  if (!DATA_URL.test(url)) {
    return /^https?:/i.test(url)
      ? `cannot be fetched: send a data URL such as data:${first};base64,…`
      : `must be a data URL such as data:${first};base64,…`
  }
  const { media_type, data } = parseDataUrl(url)
  const signature = Object.hasOwn(signatures, media_type) ? signatures[media_type] : undefined
  if (signature === undefined) return `must be ${listOf(Object.keys(signatures))}`
  // Before it is decoded.
  if ((data.length / 4) * 3 > MAX_ATTACHMENT_BYTES + 2) {
    return `is larger than ${MAX_ATTACHMENT_BYTES} bytes`
  }
  if (!isBase64(data)) return 'is not valid base64'
  return beginsWith(data, signature) ? undefined : `is not ${media_type}`
}

function listOf(names: readonly string[]): string {
  const last = names.at(-1) ?? ''
  return names.length < 2 ? last : `${names.slice(0, -1).join(', ')} or ${last}`
}

function isBase64(data: string): boolean {
  if (data === '' || data.length % 4 !== 0) return false
  const padding = data.endsWith('==') ? 2 : data.endsWith('=') ? 1 : 0
  return !/[^A-Za-z0-9+/]/.test(data.slice(0, data.length - padding))
}

function beginsWith(base64: string, signature: string): boolean {
  const start = atob(base64.slice(0, 16))
  return Array.from(signature).every((char, index) => char === '?' || char === start[index])
}
