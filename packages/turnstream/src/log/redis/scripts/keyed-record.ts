import { script } from '../client.ts'
import { NOW } from './log.ts'

/* A call may run twice when its reply is lost, so its outcome is stored until it can no longer be retried. */

/** Script part: `valueOf(entry)` is its value, or nothing when it has expired. */
const VALUE_OF = `${NOW}
local function valueOf(entry)
  local ends, value = string.match(entry, '^(%d+):(.*)$')
  return tonumber(ends) > now and value
end`

/**
 * KEYS  values, call
 * ARGV  value, time to live (ms), maximum number of values, how long the call may be retried (ms)
 */
export const ADD = script(`${VALUE_OF}
if not redis.call('SET', KEYS[2], '', 'NX', 'PX', ARGV[4]) then return 0 end
for _, entry in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if not valueOf(entry) then redis.call('LREM', KEYS[1], 0, entry) end
end
redis.call('RPUSH', KEYS[1], text(now + ARGV[2]) .. ':' .. ARGV[1])
redis.call('LTRIM', KEYS[1], -ARGV[3], -1)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1`)

/**
 * KEYS  values
 * Returns the newest value, or nothing.
 */
export const READ = script(`${VALUE_OF}
local entries = redis.call('LRANGE', KEYS[1], 0, -1)
for at = #entries, 1, -1 do
  local value = valueOf(entries[at])
  if value then return value end
end
return false`)

/**
 * KEYS  values, call
 * ARGV  how long the call may be retried (ms)
 * Returns the newest value, or nothing.
 */
export const CONSUME = script(`${VALUE_OF}
local consumed = redis.call('GET', KEYS[2])
if consumed then return consumed end
while true do
  local entry = redis.call('RPOP', KEYS[1])
  if not entry then return false end
  local value = valueOf(entry)
  if value then
    redis.call('SET', KEYS[2], value, 'PX', ARGV[1])
    return value
  end
end`)

/**
 * Stores a value of a turn; the first wins.
 * KEYS  meta of log B, values, call
 * ARGV  creation of the turn, key, value, maximum number of keys, how long the call may be retried (ms)
 * Returns 'added' or 'found' and the stored value; or the reason why there is none: 'gone', 'cancelled' or 'full'.
 */
export const ADD_ONCE = script(`
local creation, cancel = unpack(redis.call('HMGET', KEYS[1], 'creation', 'cancel'))
if creation ~= ARGV[1] then return { 'gone' } end
local found = redis.call('HGET', KEYS[2], ARGV[2])
if found then return { redis.call('EXISTS', KEYS[3]) == 1 and 'added' or 'found', found } end
if cancel then return { 'cancelled' } end
if redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[4]) then return { 'full' } end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
redis.call('PEXPIRE', KEYS[2], redis.call('PTTL', KEYS[1]))
redis.call('SET', KEYS[3], '', 'PX', ARGV[5])
redis.call('SPUBLISH', KEYS[1], '')
return { 'added', ARGV[3] }`)
