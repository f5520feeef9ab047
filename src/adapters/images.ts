import type { Attachment, OutputItem } from '../protocol/output-item.ts'

/** The pictures of a message. */
export function imagesOf({ attachments = [] }: Extract<OutputItem, { type: 'message' }>) {
  return attachments.filter(({ type }) => type === 'image')
}

/** A picture as an address that holds it. */
export function dataUrl({ media_type, data }: Attachment): string {
  return `data:${media_type};base64,${data}`
}
