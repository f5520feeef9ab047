import { script } from '../script.ts'
import { EVENTS_STATE } from './events-state.ts'

/**
 * What follows an offset in `events`: full chunks first, and when there are no more of them, what is live.
 * A line is read with the help of those before it in its chunk, so who does not have them asks for all
 * that is live.
 * KEYS  state, events, chunks, meta
 * ARGV  offset, how many chunks at most, '1' for all that is live
 * Returns state, epochs, entries of chunks, entries that are live, '1' if there may be more, creation; the state
 * alone if the log has expired; nothing if there is no such log.
 */
export const READ_EVENTS = script(`${EVENTS_STATE}
local state = stateOf(KEYS[1], KEYS[2])
local epochs, creation = unpack(redis.call('HMGET', KEYS[4], 'epochs', 'creation'))
if not state or not epochs then return {} end
local after, most = '(' .. ARGV[1], tonumber(ARGV[2])
local isSealed = string.sub(state, -1) == '!'
if isSealed and redis.call('EXISTS', KEYS[2]) == 0 then return { state } end
local stream = isSealed and KEYS[2] or KEYS[3]
local chunks = redis.call('XRANGE', stream, after, '+', 'COUNT', most)
if #chunks == most then return { state, epochs, chunks, {}, '1', creation } end
if isSealed then return { state, epochs, chunks, {}, '', creation } end
local from = ARGV[3] == '1' and '-' or after
return { state, epochs, chunks, redis.call('XRANGE', KEYS[2], from, '+'), '', creation }`)

/**
 * What follows an offset in `processed`.
 * KEYS  state, processed, items, meta
 * ARGV  offset, '1' if the items are wanted
 * Returns state, epochs, entries, items, '1' if payloads do not say their keys, creation; the state alone if the log
 * has expired; nothing if there is no such log. Items come unasked where payloads do not say the keys.
 */
export const READ_PROCESSED = script(`
local state = redis.call('GET', KEYS[1])
local epochs, creation = unpack(redis.call('HMGET', KEYS[4], 'epochs', 'creation'))
if not state or not epochs then return {} end
local isSealed = string.sub(state, -1) == '!'
if isSealed and redis.call('EXISTS', KEYS[2]) == 0 then return { state } end
local keyed = redis.call('HGET', KEYS[4], 'keyed') or ''
local entries = redis.call('XRANGE', KEYS[2], '(' .. ARGV[1], '+')
local items = {}
if ARGV[2] == '1' or keyed == '1' then items = redis.call('HGETALL', KEYS[3]) end
return { state, epochs, entries, items, keyed, creation }`)

/**
 * What is known of one log of a turn. The state of log A is that of its last chunk.
 * KEYS  state, meta, stream
 * Returns the time (ms), the state ('' if there is none), 1 if the stream is there, the fields of meta.
 */
export const READ_META = script(`
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
return { now, redis.call('GET', KEYS[1]) or '', redis.call('EXISTS', KEYS[3]),
  redis.call('HGETALL', KEYS[2]) }`)
