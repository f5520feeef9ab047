import { script } from '../client.ts'
import { NOW } from './log.ts'

/*
 * A call may run twice when its reply is lost. By then another process may have taken the note, so the outcome of each
 * call is stored until it can no longer be retried.
 */

/** Script part: `valueOf(entry)` is the value of a note, or nothing when it has expired. */
const VALUE_OF = `${NOW}
local function valueOf(entry)
  local ends, value = string.match(entry, '^(%d+):(.*)$')
  return tonumber(ends) > now and value
end`

/**
 * KEYS  notes, call
 * ARGV  value, time to live (ms), maximum number of notes, how long the call may be retried (ms)
 */
export const ADD_NOTE = script(`${VALUE_OF}
if not redis.call('SET', KEYS[2], '', 'NX', 'PX', ARGV[4]) then return 0 end
for _, entry in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if not valueOf(entry) then redis.call('LREM', KEYS[1], 0, entry) end
end
redis.call('RPUSH', KEYS[1], text(now + ARGV[2]) .. ':' .. ARGV[1])
redis.call('LTRIM', KEYS[1], -ARGV[3], -1)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1`)

/**
 * KEYS  notes
 * Returns the newest value, or nothing.
 */
export const READ_NOTE = script(`${VALUE_OF}
local entries = redis.call('LRANGE', KEYS[1], 0, -1)
for at = #entries, 1, -1 do
  local value = valueOf(entries[at])
  if value then return value end
end
return false`)

/**
 * KEYS  notes, call
 * ARGV  how long the call may be retried (ms)
 * Returns the newest value, or nothing.
 */
export const TAKE_NOTE = script(`${VALUE_OF}
local taken = redis.call('GET', KEYS[2])
if taken then return taken end
while true do
  local entry = redis.call('RPOP', KEYS[1])
  if not entry then return false end
  local value = valueOf(entry)
  if value then
    redis.call('SET', KEYS[2], value, 'PX', ARGV[1])
    return value
  end
end`)
