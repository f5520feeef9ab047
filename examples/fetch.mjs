// Prints an answer while it arrives, and reconnects when the connection breaks. Needs only Node 20.
//
//   node examples/fetch.mjs 'What is turnstream?'
//
// TURNSTREAM_URL is the gateway, TURNSTREAM_KEY its key, if it requires one.
const gateway = process.env.TURNSTREAM_URL ?? 'http://127.0.0.1:4010'
const key = process.env.TURNSTREAM_KEY
const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
const prompt = process.argv.slice(2).join(' ') || 'What is turnstream?'

// With your own id you can repeat a submit: it stays one turn.
const turnId = crypto.randomUUID()
const submitted = await fetch(`${gateway}/api/v2/submit`, {
  method: 'POST',
  headers: { ...headers, 'content-type': 'application/json' },
  body: JSON.stringify({ turnId, prompt }),
})
if (!submitted.ok) throw new Error(`${submitted.status} ${await submitted.text()}`)

/** The frames of an event stream, as `{ id, data }`. */
async function* framesOf(body) {
  let text = ''
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    const frames = (text + chunk).split('\n\n')
    text = frames.pop()
    for (const frame of frames) {
      const field = (name) => frame.match(new RegExp(`^${name}: (.*)$`, 'm'))?.[1]
      if (field('data') !== undefined) yield { id: field('id'), data: field('data') }
    }
  }
}

let shown = { itemId: '', content: '' }
let last = '0-0'

/** Reads from the last frame on. Returns true when the turn has ended. */
async function follow() {
  const address = `${gateway}/xapi/turns/${turnId}/stream`
  const stream = await fetch(address, { headers: { ...headers, 'last-event-id': last } })
  if (stream.status === 204) return true
  if (!stream.ok) throw new Error(`${stream.status} ${await stream.text()}`)
  for await (const { id, data } of framesOf(stream.body)) {
    last = id ?? last
    const output = JSON.parse(data)
    if (output.type === 'turn_complete') return true
    if (output.type === 'turn_error') throw new Error(output.error.message)
    if (output.type !== 'message' || output.origin === 'user') continue
    // A snapshot holds the full text of its item: print what comes after the text already shown.
    const known = output.itemId === shown.itemId ? shown.content.length : 0
    process.stdout.write(output.content.slice(known))
    shown = output
  }
  return false
}

for (let failures = 0; ; ) {
  try {
    if (await follow()) break
  } catch (error) {
    // fetch throws a TypeError when the connection breaks. The turn keeps running.
    failures += 1
    if (!(error instanceof TypeError) || failures > 10) throw error
  }
  await new Promise((resolve) => setTimeout(resolve, 500))
}
process.stdout.write('\n')
