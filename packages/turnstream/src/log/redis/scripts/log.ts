import { script } from '../client.ts'

/** Script part: `now` is the time in ms, `text(ms)` its exact decimal form. */
export const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(ms) return string.format('%.0f', ms) end
`

/** Script part: `stateOf(state, events)` is the state of log A. The head of an open one is its stream's last id. */
export const EVENTS_STATE = `
local function stateOf(state, events)
  local found = redis.call('GET', state)
  if not found or string.sub(found, -1) == '!' or redis.call('EXISTS', events) == 0 then return found end
  local info = redis.call('XINFO', 'STREAM', events)
  local at = 1
  while info[at] ~= 'last-generated-id' do at = at + 2 end
  return string.match(found, '^%d+') .. ':' .. string.match(info[at + 1], '%d+$')
end`

/**
 * KEYS  state, events, meta
 * ARGV  creation of the turn
 * Returns the state of log A, or nothing.
 */
export const READ_EVENTS_STATE = script(`${EVENTS_STATE}
if redis.call('HGET', KEYS[3], 'creation') ~= ARGV[1] then return false end
return stateOf(KEYS[1], KEYS[2])`)

/* An append changes nothing unless it finds the state it expects. Notifications are empty, on the stream's name. */

/**
 * Adds a line to the `events` of any number of turns, for writers that wrote the previous one: the id alone decides.
 * It must exceed the last id, which claims, seals and recreations raise. (Not for several lines: another writer of the
 * same lease may have added the first of them.)
 * KEYS  for each: events
 * ARGV  for each: id of the entry, line
 * Returns for each line not added its position and false: the state must be looked up.
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

/** Beyond every record: after a seal the stream accepts none of the same epoch. */
const MAX_SEQ = '18446744073709551615'

// A separate entry costs a stream about 900 bytes; up to 16 KiB memory is allocated exactly.
const MAX_MERGED_BYTES = 15_000

/**
 * Adds lines to `events` in the expected state. Merges live lines into a chunk that is full, or the last of a sealed
 * log, which consists of chunks in the log's key.
 * KEYS  state, events, chunks, meta, response
 * ARGV  epoch, head before, head after, lines, seq of the last of them that fills a chunk ('' if none),
 *       lines after that one, outcome of the turn (JSON) to seal, otherwise '', '1' if the lines are the
 *       complete chunk and not only the new ones, creation of the turn, how long to store a sealed log (ms; ''
 *       until the turn is settled), Response to store with a seal (missing if there is none)
 * Returns 1, or the state found ('' if there is none of this creation).
 */
export const FINISH_CHUNK = script(`${NOW}${EVENTS_STATE}
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
  local keepMs = ARGV[10] ~= '' and ARGV[10] or redis.call('PTTL', state)
  redis.call('PEXPIRE', events, keepMs)
  if ARGV[11] then
    redis.call('SET', KEYS[5], ARGV[11], 'PX', keepMs)
    redis.call('HSET', meta, 'responseBytes', #ARGV[11])
  end
  redis.call('HSET', meta, 'outcome', outcome, 'endedAt', text(now))
else
  local id = epoch .. '-' .. last
  if rest ~= '' then redis.call('XADD', events, id, 'lines', rest) else redis.call('XSETID', events, id) end
  redis.call('SET', state, epoch .. ':' .. last, 'KEEPTTL')
end
redis.call('SPUBLISH', events, '')
return 1`)

/**
 * Adds snapshots to the `processed` of any number of turns, replacing superseded ones. A stream frees deleted entries
 * only in whole nodes, so a sealed log is rewritten.
 * KEYS  for each: state, processed, items
 * ARGV  for each: number of records, epoch, head before and head after, each with `@` and the creation of
 *       the turn, to seal how long to store the log (ms; 'keep' until the turn is settled), otherwise '', turn id,
 *       then for each record: seq, event id, timestamp, payload, id of the entry that it supersedes or '', its
 *       key if that is new, seq of the key's first appearance
 * Returns for each batch not added its position and the state found ('' if there is none of this creation).
 */
export const APPEND_PROCESSED = script(`
local call, pcall, keys, argv = redis.call, redis.pcall, KEYS, ARGV

local function changed(state, before, after)
  local found = call('SET', state, after, 'KEEPTTL', 'GET')
  if found == before then return nil end
  if found then call('SET', state, found, 'KEEPTTL') else call('DEL', state) end
  return found or ''
end

local function add(processed, items, epoch, turnId, at)
  local superseded, key = argv[at + 4], argv[at + 5]
  local added = pcall('XADD', processed, epoch .. '-' .. argv[at], 'eventId', argv[at + 1],
    'timestamp', argv[at + 2], 'turnId', turnId, 'payload', argv[at + 3])
  if type(added) ~= 'string' then return added end
  if superseded ~= '' then call('XDEL', processed, superseded) end
  if key == '' then return end
  local known = call('HGET', items, key)
  call('HSET', items, key, known and string.match(known, '^%d+') or argv[at + 6])
end

local function seal(state, processed, items, sealed, keepMs)
  local entries = call('XRANGE', processed, '-', '+')
  call('DEL', processed)
  for _, entry in ipairs(entries) do call('XADD', processed, entry[1], unpack(entry[2])) end
  if keepMs == 'keep' then keepMs = call('PTTL', state) end
  call('PEXPIRE', processed, keepMs)
  call('PEXPIRE', items, keepMs)
  call('SET', state, sealed, 'KEEPTTL')
end

local function append(state, processed, items, at)
  local count, epoch, before, last = argv[at], argv[at + 1], argv[at + 2], argv[at + 3]
  local expected, after = epoch .. ':' .. before, epoch .. ':' .. last
  local found = changed(state, expected, after)
  -- Another creation's state does not belong to this turn.
  if found then return string.match(found, '@%x*') == string.match(expected, '@%x*') and found or '' end
  for record = 0, count - 1 do
    local failure = add(processed, items, epoch, argv[at + 5], at + 6 + record * 7)
    if failure then
      -- The state must not claim records that the log lacks.
      call('SET', state, expected, 'KEEPTTL')
      return nil, failure
    end
  end
  if string.sub(before, 1, 2) == '0@' then call('PEXPIRE', items, call('PTTL', state)) end
  if argv[at + 4] ~= '' then seal(state, processed, items, after .. '!', argv[at + 4]) end
  call('SPUBLISH', processed, '')
end

local refused, at = {}, 1
for place = 1, #keys / 3 do
  local key = place * 3
  local found, failure = append(keys[key - 2], keys[key - 1], keys[key], at)
  if failure then return failure end
  if found then
    refused[#refused + 1] = place
    refused[#refused + 1] = found
  end
  at = at + 6 + argv[at] * 7
end
return refused`)

/**
 * Reads `events` after an offset: full chunks, then live lines, which need the earlier ones of their chunk.
 * KEYS  state, events, chunks, meta
 * ARGV  offset, maximum number of chunks, '1' for all live lines
 * Returns state, epochs, chunk entries, live entries, '1' if there may be more, creation; only the state if the log
 * has expired; nothing if there is no such log.
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
 * Reads `processed` after an offset.
 * KEYS  state, processed, items, meta
 * ARGV  offset, '1' if the items are wanted
 * Returns state, epochs, entries, items, '1' if payloads lack their keys, creation; only the state if the log has
 * expired; nothing if there is no such log. Items are always included where payloads lack keys.
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
