import type { Attachment } from '../../protocol/output-item.ts'
import { ParameterError } from './parameter-error.ts'

/** How many pictures a request may have. */
export const MAX_IMAGES = 20

// As large as every vendor takes them.
const MAX_IMAGE_BYTES = 5 * 1024 * 1024

const DATA_URL = /^data:([^;,]{1,100});base64,/i
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/** How a picture of each type begins. `?` stands for any byte. */
const SIGNATURES: Record<string, string> = {
  'image/png': '\u0089PNG',
  'image/jpeg': '\u00ff\u00d8\u00ff',
  'image/gif': 'GIF8',
  'image/webp': 'RIFF????WEBP',
}

/** A picture from the address that holds it. Addresses that lead elsewhere are refused: nothing is fetched. */
export function attachmentOf(url: string, param: string): Attachment {
  const [prefix, type = ''] = DATA_URL.exec(url) ?? []
  if (prefix === undefined) {
    const why = /^https?:/i.test(url)
      ? 'this server fetches nothing: send the picture itself, as data:image/png;base64,…'
      : 'must be a picture as data:image/png;base64,…'
    throw new ParameterError(param, why)
  }
  const media_type = type.toLowerCase() === 'image/jpg' ? 'image/jpeg' : type.toLowerCase()
  const signature = SIGNATURES[media_type]
  if (signature === undefined) {
    throw new ParameterError(param, 'must be of image/png, image/jpeg, image/gif or image/webp')
  }
  const data = url.slice(prefix.length)
  if (data.length % 4 !== 0 || !BASE64.test(data)) {
    throw new ParameterError(param, 'is no base64')
  }
  if ((data.length / 4) * 3 > MAX_IMAGE_BYTES + 2) {
    throw new ParameterError(param, `is larger than ${MAX_IMAGE_BYTES} bytes`)
  }
  if (!beginsWith(data, signature)) throw new ParameterError(param, `is no ${media_type}`)
  return { type: 'image', media_type, data }
}

function beginsWith(base64: string, signature: string): boolean {
  const start = Buffer.from(base64.slice(0, 16), 'base64').toString('latin1')
  return Array.from(signature).every((char, index) => char === '?' || char === start[index])
}
