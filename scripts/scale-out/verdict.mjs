// What readers must have seen of a turn whose gateway was killed.
import { isDeepStrictEqual } from 'node:util'

/** @typedef {import('./reader.mjs').Reader} Reader */
/** @typedef {import('./reader.mjs').Frame} Frame */

/** @param {boolean} holds @param {string} what */
function must(holds, what) {
  if (!holds) throw new Error(what)
}

/** @param {{ events: Reader, outputs: Reader, appended: Reader, moved: Reader }} readers */
export function checkReaders({ events, outputs, appended, moved }) {
  checkEvents(events.frames)
  must(
    isDeepStrictEqual(moved.frames, events.frames),
    'a reader that moved to another gateway has not seen the same events',
  )
  const text = textsOf(events.frames)
  const shown = shownBy(outputs.frames)
  must(isDeepStrictEqual(shown, text), 'the snapshots lack text that the events have')
  must(outputs.frames.at(-1)?.data.type === 'turn_error', 'the snapshots have another end')
  must(isDeepStrictEqual(appliedBy(appended.frames), text), 'appends give another text')
}

/** No gap, no repetition, one end. @param {readonly Frame[]} frames */
function checkEvents(frames) {
  const seqs = frames.map(({ id }) => Number(id.split('-')[1]))
  for (const [index, seq] of seqs.entries()) {
    must(seq === index + 1, `event ${seq} came where ${index + 1} belongs`)
  }
  const ends = frames.filter(
    ({ data }) => data.type.startsWith('response_') && data.type !== 'response_start',
  )
  must(ends.length === 1, `there are ${ends.length} ends`)
  const end = frames.at(-1)?.data
  must(end.payload.error?.code === 'PRODUCER_LOST', `the end is ${JSON.stringify(end.payload)}`)
}

/** The text of each agent item by id, from the deltas. @param {readonly Frame[]} frames */
function textsOf(frames) {
  /** @type {Record<string, string>} */
  const texts = {}
  for (const { data } of frames) {
    if (data.type !== 'item_delta') continue
    const { item_id, delta_content } = data.payload
    texts[item_id] = (texts[item_id] ?? '') + delta_content
  }
  return texts
}

/** The final snapshots of the agent's items. @param {readonly Frame[]} frames */
function shownBy(frames) {
  /** @type {Record<string, string>} */
  const texts = {}
  for (const { data } of frames) {
    if (data.origin === 'agent' || data.type === 'thinking') {
      must(data.content.startsWith(texts[data.itemId] ?? ''), `${data.itemId} has shrunk`)
      texts[data.itemId] = data.content
    }
  }
  return texts
}

/** The same from the append encoding. @param {readonly Frame[]} frames */
function appliedBy(frames) {
  /** @type {Record<string, string>} */
  const texts = {}
  for (const { event, data } of frames) {
    if (event === 'append') {
      const before = texts[data.itemId] ?? ''
      must(before.length === data.at, `an append at ${data.at} to ${before.length} characters`)
      texts[data.itemId] = before + data.text
    } else if (data.origin === 'agent' || data.type === 'thinking') {
      texts[data.itemId] = data.content
    }
  }
  return texts
}
