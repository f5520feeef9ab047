import { script } from '../script.ts'
import { EVENTS_STATE } from './events-state.ts'

/*
 * An append changes the state of its log and hopes to find the one it expects: a single command reads
 * and writes it. What it found instead is put back and answered, and the caller decides what that means.
 * A hint goes out on a channel that is named as the stream; it says nothing but "look".
 */

const CHANGE_STATE = `
local function changed(state, before, after)
  local found = redis.call('SET', state, after, 'KEEPTTL', 'GET')
  if found == before then return nil end
  if found then redis.call('SET', state, found, 'KEEPTTL') else redis.call('DEL', state) end
  return found or ''
end`

/**
 * Adds a line to the `events` of any number of turns, for writers that wrote the one before it themselves:
 * then the id alone tells whether the line may be added. It has to be greater than the last one, which is
 * that of the newest record, or one that a claim or a seal has set beyond all ids of those before; and a turn
 * that is made again after the deletion of an open one begins with an epoch beyond those of the deleted one. (For several lines
 * that would not do: another writer of the same lease may have added the first of them.)
 * KEYS  for each: events
 * ARGV  for each: id of the entry, line
 * Returns for each that was not added its place and nothing: what the state is has to be looked up.
 */
export const APPEND_EVENTS = script(`
local call, pcall, keys, argv = redis.call, redis.pcall, KEYS, ARGV
local refused = {}
for place = 1, #keys do
  local events = keys[place]
  local added = pcall('XADD', events, 'NOMKSTREAM', argv[place * 2 - 1], 'lines', argv[place * 2])
  if type(added) == 'string' then
    call('SPUBLISH', events, '')
  elseif added and not string.find(added.err, 'equal or smaller', 1, true) then
    return added
  else
    refused[#refused + 1] = place
    refused[#refused + 1] = false
  end
end
return refused`)

/** Beyond every record: after a seal the stream takes none of the same epoch. */
const MAX_SEQ = '18446744073709551615'

// An entry of its own costs a stream about 900 bytes, and the memory of 16 KiB is given as it is asked for.
const MAX_MERGED_BYTES = 15_000

/**
 * Adds lines to `events`, if its state is the one that is expected, and merges: what is live becomes a
 * chunk, at the record with which a chunk is full and, if the log is sealed, at the last. A sealed log is its chunks, as many of an epoch in an entry
 * as is economical, under the name of the log.
 * KEYS  state, events, chunks, meta, response
 * ARGV  epoch, head before, head after, lines, seq of the last of them that fills a chunk ('' if none),
 *       lines after that one, how the turn ended (JSON) to seal, otherwise '', '1' if the lines are all
 *       of their chunk and not only what is new, creation of the turn, Response to store with a seal
 *       (missing if there is none)
 * Returns 1, or the state that was found ('' if there is none of this creation).
 */
export const FINISH_CHUNK = script(`${EVENTS_STATE}
local state, events, chunks, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local epoch, before, last, lines = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local full, rest, outcome, isWhole = ARGV[5], ARGV[6], ARGV[7], ARGV[8] == '1'

if redis.call('HGET', meta, 'creation') ~= ARGV[9] then return '' end
local found = stateOf(state, events) or ''
if found ~= epoch .. ':' .. before then return found end

local function merge(more, seq)
  local parts = {}
  if not isWhole then
    for _, entry in ipairs(redis.call('XRANGE', events, '-', '+')) do
      parts[#parts + 1] = entry[2][2]
    end
  end
  if more ~= '' then parts[#parts + 1] = more end
  if #parts == 0 then return end
  redis.call('XADD', chunks, epoch .. '-' .. seq, 'lines', table.concat(parts, '\\n'))
  redis.call('PEXPIRE', chunks, redis.call('PTTL', state))
  redis.call('XTRIM', events, 'MAXLEN', 0)
end

local function mergeChunks()
  local entries = redis.call('XRANGE', chunks, '-', '+')
  redis.call('DEL', chunks)
  local parts, bytes = {}, 0
  for index, entry in ipairs(entries) do
    local text, following = entry[2][2], entries[index + 1]
    parts[#parts + 1] = text
    bytes = bytes + #text
    local isLast = not following
      or string.match(following[1], '^%d+') ~= string.match(entry[1], '^%d+')
      or bytes + #following[2][2] > ${MAX_MERGED_BYTES}
    if isLast then
      redis.call('XADD', chunks, entry[1], 'lines', table.concat(parts, '\\n'))
      parts, bytes = {}, 0
    end
  end
  redis.call('PEXPIRE', chunks, redis.call('PTTL', state))
end

if full ~= '' then merge(lines, full) else rest = lines end
if outcome ~= '' then
  merge(rest, last)
  mergeChunks()
  redis.call('RENAME', chunks, events)
  redis.call('XSETID', events, epoch .. '-${MAX_SEQ}')
  redis.call('SET', state, epoch .. ':' .. last .. '!', 'KEEPTTL')
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  if ARGV[10] then
    redis.call('SET', KEYS[5], ARGV[10], 'PX', redis.call('PTTL', state))
    redis.call('HSET', meta, 'responseBytes', #ARGV[10])
  end
  redis.call('HSET', meta, 'outcome', outcome, 'endedAt', string.format('%.0f', now))
else
  local id = epoch .. '-' .. last
  if rest ~= '' then redis.call('XADD', events, id, 'lines', rest) else redis.call('XSETID', events, id) end
  redis.call('SET', state, epoch .. ':' .. last, 'KEEPTTL')
end
redis.call('SPUBLISH', events, '')
return 1`)

/**
 * Adds snapshots to the `processed` of any number of turns, each in the place of the one it supersedes.
 * The writer knows which that is as long as it finds the state that it left. A stream frees the room of
 * deleted entries only when a whole node of it is empty, so a log that is sealed is written anew.
 * KEYS  for each: state, processed, items, meta
 * ARGV  for each: number of records, epoch, head before and head after, each with `@` and the creation of
 *       the turn, '1' to seal, turn id, then for each record: seq, event id, timestamp, payload, id of the entry that it supersedes or '', key if the
 *       items have to be told, seq of the key's first appearance if it is new, '1' if the payload does
 *       not say the key
 * Returns for each that was not added its place and the state that was found ('' if there is none of this
 * creation).
 */
export const APPEND_PROCESSED = script(`${CHANGE_STATE}
local function add(keys, epoch, turnId, at)
  local processed, items, meta = keys[2], keys[3], keys[4]
  local id, superseded, key = epoch .. '-' .. ARGV[at], ARGV[at + 4], ARGV[at + 5]
  local added = redis.pcall('XADD', processed, id, 'eventId', ARGV[at + 1], 'timestamp', ARGV[at + 2],
    'turnId', turnId, 'payload', ARGV[at + 3])
  if type(added) ~= 'string' then return added end
  if superseded ~= '' then redis.call('XDEL', processed, superseded) end
  if key == '' then return end
  local known = redis.call('HGET', items, key)
  local first = known and string.match(known, '^%d+') or ARGV[at + 6]
  local isUnsaid = ARGV[at + 7] == '1'
  redis.call('HSET', items, key, isUnsaid and first .. ' ' .. id or first)
  if isUnsaid then redis.call('HSET', meta, 'keyed', '1') end
end

local function seal(state, processed, sealed)
  local entries = redis.call('XRANGE', processed, '-', '+')
  redis.call('DEL', processed)
  for _, entry in ipairs(entries) do redis.call('XADD', processed, entry[1], unpack(entry[2])) end
  redis.call('PEXPIRE', processed, redis.call('PTTL', state))
  redis.call('SET', state, sealed, 'KEEPTTL')
end

local function append(keys, at)
  local state, processed, items = keys[1], keys[2], keys[3]
  local count, epoch, before, last = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local isSeal, turnId = ARGV[at + 4] == '1', ARGV[at + 5]
  local expected, after = epoch .. ':' .. before, epoch .. ':' .. last
  local found = changed(state, expected, after)
  -- What another creation left is none of this turn's.
  if found then return string.match(found, '@%x*') == string.match(expected, '@%x*') and found or '' end
  for record = 0, count - 1 do
    local failure = add(keys, epoch, turnId, at + 6 + record * 8)
    if failure then
      -- The state must not say that the log has what it has not.
      redis.call('SET', state, expected, 'KEEPTTL')
      return nil, failure
    end
  end
  if string.sub(before, 1, 2) == '0@' then redis.call('PEXPIRE', items, redis.call('PTTL', state)) end
  if isSeal then seal(state, processed, after .. '!') end
  redis.call('SPUBLISH', processed, '')
end

local refused, at = {}, 1
for place = 1, #KEYS / 4 do
  local key = place * 4
  local found, failure = append({ KEYS[key - 3], KEYS[key - 2], KEYS[key - 1], KEYS[key] }, at)
  if failure then return failure end
  if found then
    refused[#refused + 1] = place
    refused[#refused + 1] = found
  end
  at = at + 6 + tonumber(ARGV[at]) * 8
end
return refused`)
