import { script } from '../script.ts'

const NOW = `
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
`

/** Several turns say how long a key is needed; the longest time counts. */
const KEEP = `
local function keep(key, ms)
  if redis.call('PTTL', key) < tonumber(ms) then redis.call('PEXPIRE', key, ms) end
end
`

/**
 * Gives a turn its place in the thread and marks it as the one that is open. Whether an earlier mark is
 * still true is not known in this slot; the caller looks and comes again with the mark it may replace.
 * KEYS  thread, turns
 * ARGV  turn id, lease (ms), how long a thread is kept (ms), mark that may be replaced
 * Returns 'ok', ordinal, now; or 'busy', the turn that is marked, the end of its mark, now.
 */
export const OPEN_TURN = script(`${NOW}${KEEP}
local open, ends = unpack(redis.call('HMGET', KEYS[1], 'open', 'openUntil'))
if open and open ~= ARGV[1] and open ~= ARGV[4] then return { 'busy', open, ends, now } end
local ordinal = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not ordinal then
  ordinal = redis.call('HINCRBY', KEYS[1], 'made', 1)
  redis.call('ZADD', KEYS[2], ordinal, ARGV[1])
end
redis.call('HSETNX', KEYS[1], 'createdAt', now)
redis.call('HSET', KEYS[1], 'updatedAt', now, 'open', ARGV[1],
  'openUntil', string.format('%.0f', now + ARGV[2]))
keep(KEYS[1], ARGV[3])
keep(KEYS[2], ARGV[3])
return { 'ok', tostring(ordinal), now }`)

/**
 * Takes the mark of a turn that is no longer open away; '1' takes the turn out of the list, too.
 * KEYS  thread, turns
 * ARGV  turn id, '' or '1', how long a thread is kept (ms)
 */
export const CLOSE_TURN = script(`${KEEP}
if ARGV[2] == '1' then redis.call('ZREM', KEYS[2], ARGV[1]) end
if redis.call('HGET', KEYS[1], 'open') == ARGV[1] then
  redis.call('HDEL', KEYS[1], 'open', 'openUntil')
  keep(KEYS[1], ARGV[3])
  keep(KEYS[2], ARGV[3])
end
return 1`)

/**
 * Takes turns out of the list whose records are gone. One that is just being made has no record yet.
 * KEYS  thread, turns
 * ARGV  turn ids
 */
export const FORGET_TURNS = script(`
local open = redis.call('HGET', KEYS[1], 'open')
for _, turnId in ipairs(ARGV) do
  if turnId ~= open then redis.call('ZREM', KEYS[2], turnId) end
end
return 1`)

/**
 * Makes a thread or replaces its title and metadata.
 * KEYS  thread
 * ARGV  how long a thread is kept (ms), then fields and values
 * Returns createdAt, updatedAt.
 */
export const PUT_THREAD = script(`${NOW}${KEEP}
redis.call('HDEL', KEYS[1], 'title', 'metadata')
redis.call('HSETNX', KEYS[1], 'createdAt', now)
redis.call('HSET', KEYS[1], 'updatedAt', now, unpack(ARGV, 2))
keep(KEYS[1], ARGV[1])
return { redis.call('HGET', KEYS[1], 'createdAt'), now }`)

/**
 * Puts a member into an index and drops members that are older than anything it may name.
 * KEYS  index
 * ARGV  score (ms), member, how long the index is needed for it (ms)
 */
export const INDEX = script(`${NOW}${KEEP}
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
keep(KEYS[1], ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. string.format('%.0f', now - redis.call('PTTL', KEYS[1])))
return 1`)

/**
 * Members whose score is in the past, oldest first.
 * KEYS  index
 * ARGV  how many to leave out, how many at most
 * Returns each member and its score.
 */
export const DUE = script(`${NOW}
return redis.call('ZRANGE', KEYS[1], '-inf', now, 'BYSCORE', 'LIMIT', ARGV[1], ARGV[2], 'WITHSCORES')`)

/**
 * Takes a member out of an index, unless it got another score since it was looked at.
 * KEYS  index
 * ARGV  member, score
 */
export const DROP = script(`
if redis.call('ZSCORE', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('ZREM', KEYS[1], ARGV[1])`)

/**
 * Keeps keys for as long as they are needed.
 * KEYS  the keys
 * ARGV  how long (ms)
 */
export const KEEP_KEYS = script(`${KEEP}
for _, key in ipairs(KEYS) do keep(key, ARGV[1]) end
return 1`)
