// `resumable-stream` on Redis, with the client that we use: its producer holds the chunks in memory and sends them to
// readers on request.
import { connectTo } from './log-stores.mjs'
import { TOKEN_CHARS } from './log-turns.mjs'
import { createResumableStreamContext } from './rivals.mjs'

const STREAM = 'turn'

/** The text as an AI SDK sends it to a browser. @param {string} text */
function* chunksOf(text) {
  for (let at = 0; at < text.length; at += TOKEN_CHARS) {
    const delta = text.slice(at, at + TOKEN_CHARS)
    yield `data: ${JSON.stringify({ type: 'text-delta', id: '0', delta })}\n\n`
  }
}

/**
 * A stream with every chunk that has not ended, and a reader that joins then.
 * @param {string} url @param {import('./log-turns.mjs').Turn} turn
 */
export async function startResumableStream(url, { text }) {
  const clients = await Promise.all(Array.from({ length: 4 }, () => connectTo(url)))
  const [publisher = {}, subscriber = {}, ...others] = clients
  const [readerPublisher = {}, readerSubscriber = {}] = others
  const writer = createResumableStreamContext({ waitUntil: null, publisher, subscriber })
  const reader = createResumableStreamContext({
    waitUntil: null,
    publisher: readerPublisher,
    subscriber: readerSubscriber,
  })
  let total = 0
  await new Promise((resolve, reject) => {
    const chunks = chunksOf(text)
    /** @param {ReadableStreamDefaultController<string>} controller */
    const pull = (controller) => {
      const { value } = chunks.next()
      if (value === undefined) {
        resolve(undefined)
        return new Promise(() => {})
      }
      total += value.length
      controller.enqueue(value)
      return undefined
    }
    writer.createNewResumableStream(STREAM, () => new ReadableStream({ pull })).catch(reject)
  })
  const subject = {
    name: 'redis, open, resumable-stream',
    bytes: 0,
    async run() {
      const stream = await reader.resumeExistingStream(STREAM)
      if (!stream) throw new Error('resumable-stream has no such stream')
      subject.bytes = 0
      for await (const chunk of stream) {
        subject.bytes += chunk.length
        if (subject.bytes === total) break
      }
      return 1
    },
    stop() {
      for (const client of clients) client.destroy()
    },
  }
  return subject
}
