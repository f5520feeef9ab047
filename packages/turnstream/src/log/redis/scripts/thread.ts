import { script } from '../client.ts'
import { NOW } from './log.ts'

/* Scripts of a thread have three keys: thread, turns, replaced. */

/** Several turns extend the expiry of a key; the longest counts. */
const KEEP = `
local function keep(key, ms)
  if redis.call('PTTL', key) < tonumber(ms) then redis.call('PEXPIRE', key, ms) end
end
`

/** Mark of a deletion in progress. After its time limit it is removed, so that the deletion notices. */
const IS_DELETING = `
local function isDeleting()
  local mark, ends = unpack(redis.call('HMGET', KEYS[1], 'deletion', 'deletionUntil'))
  if not mark or now < tonumber(ends) then return mark end
  redis.call('HDEL', KEYS[1], 'deletion', 'deletionUntil')
  return false
end
`

/** Marks the turns from one ordinal to before another as replaced. Repeating it changes nothing. */
const MARK_REPLACED = `
local function markReplaced(by, from, before)
  if from == '' then return end
  for _, turnId in ipairs(redis.call('ZRANGE', KEYS[2], from, '(' .. before, 'BYSCORE')) do
    redis.call('HSETNX', KEYS[3], turnId, by)
  end
end
`

/**
 * Adds a turn to the thread and marks it as the open one. The caller checks whether an earlier mark is stale.
 * ARGV  turn id, lease (ms), thread retention (ms), mark that may be replaced, creation of a new thread,
 *       turn that it replaces or '', title of a new thread or ''
 * Returns 'ok', ordinal, now, and the ordinal from which turns are replaced or ''; 'busy', the marked turn, the
 * expiry of its mark, now; 'deleting'; 'unknown' if there is nothing to replace; or 'replaced' and the turn that did.
 */
export const OPEN_TURN = script(`${NOW}${KEEP}${IS_DELETING}
if isDeleting() then return { 'deleting' } end
local open, ends = unpack(redis.call('HMGET', KEYS[1], 'open', 'openUntil'))
if open and open ~= ARGV[1] and open ~= ARGV[4] then return { 'busy', open, ends, text(now) } end
local from = ''
if ARGV[6] ~= '' then
  from = redis.call('ZSCORE', KEYS[2], ARGV[6])
  if not from then return { 'unknown' } end
  local by = redis.call('HGET', KEYS[3], ARGV[6])
  if by and by ~= ARGV[1] then return { 'replaced', by } end
end
local ordinal = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not ordinal then
  ordinal = redis.call('HINCRBY', KEYS[1], 'made', 1)
  redis.call('ZADD', KEYS[2], ordinal, ARGV[1])
end
if redis.call('HSETNX', KEYS[1], 'createdAt', text(now)) == 1 and ARGV[7] ~= '' then
  redis.call('HSET', KEYS[1], 'title', ARGV[7])
end
redis.call('HSETNX', KEYS[1], 'creation', ARGV[5])
redis.call('HSET', KEYS[1], 'updatedAt', text(now), 'open', ARGV[1],
  'openUntil', text(now + ARGV[2]))
for _, key in ipairs(KEYS) do keep(key, ARGV[3]) end
return { 'ok', tostring(ordinal), text(now), from }`)

/**
 * Whether a created turn is still listed: its thread may have been deleted. Marks the turns that it replaces.
 * ARGV  turn id, ordinal, ordinal from which it replaces turns or '', turn that replaced it before or ''
 * Returns 1 or 0.
 */
export const CONFIRM_TURN = script(`${NOW}${IS_DELETING}${MARK_REPLACED}
if isDeleting() or redis.call('HGET', KEYS[1], 'open') ~= ARGV[1] then return 0 end
if redis.call('ZSCORE', KEYS[2], ARGV[1]) ~= ARGV[2] then return 0 end
markReplaced(ARGV[1], ARGV[3], ARGV[2])
if ARGV[4] ~= '' then redis.call('HSETNX', KEYS[3], ARGV[1], ARGV[4]) end
redis.call('PEXPIRE', KEYS[3], redis.call('PTTL', KEYS[2]))
return 1`)

/**
 * Lists turns of a thread, in steps that do not block the server for long.
 * ARGV  'newest' or 'oldest', the bound to start from, how many turns, '1' to include replaced ones
 * Returns 1 at the end of the list, the bound to continue from, and each turn, its ordinal and its replacement or ''.
 */
export const LIST_TURNS = script(`
local isNewest, edge, wanted, isAll = ARGV[1] == 'newest', ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local hasReplaced = redis.call('EXISTS', KEYS[3]) == 1
local found, size = {}, math.max(wanted, 50)
for _ = 1, 100 do
  local page
  if isNewest then
    page = redis.call('ZRANGE', KEYS[2], edge, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, size, 'WITHSCORES')
  else
    page = redis.call('ZRANGE', KEYS[2], edge, '+inf', 'BYSCORE', 'LIMIT', 0, size, 'WITHSCORES')
  end
  for at = 1, #page, 2 do
    local by = hasReplaced and redis.call('HGET', KEYS[3], page[at])
    edge = '(' .. page[at + 1]
    if isAll or not by then
      found[#found + 1] = { page[at], page[at + 1], by or '' }
      if #found == wanted then return { 0, edge, found } end
    end
  end
  if #page < size * 2 then return { 1, edge, found } end
end
return { 0, edge, found }`)

/**
 * Starts or continues a deletion, together with others. Until it ends or times out, the thread gets no turns.
 * ARGV  mark of the deletion, time limit of its next step (ms), turns that the last step removed
 * Returns the creation of the thread and the valid mark, or nothing if there is no thread.
 */
export const BEGIN_DELETION = script(`${NOW}${IS_DELETING}
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
local mark = isDeleting()
if mark == ARGV[1] and #ARGV > 2 then redis.call('ZREM', KEYS[2], unpack(ARGV, 3)) end
mark = mark or ARGV[1]
redis.call('HSET', KEYS[1], 'deletion', mark, 'deletionUntil', text(now + ARGV[2]))
return { redis.call('HGET', KEYS[1], 'creation') or '', mark }`)

/**
 * Ends the deletion of a thread, unless it timed out and the thread has a new turn.
 * ARGV  mark of the deletion
 * Returns 1 if the thread existed.
 */
export const END_DELETION = script(`
if redis.call('HGET', KEYS[1], 'deletion') ~= ARGV[1] then return 0 end
redis.call('DEL', unpack(KEYS))
return 1`)

/**
 * Removes the mark of a turn that is no longer open; '1' also removes the turn from the list. Otherwise it replaces
 * others now, if its creator died before. The thread's retention starts: earlier turns have already ended.
 * ARGV  turn id, '' or '1', thread retention (ms), ordinal from which it replaces turns or '', its ordinal
 */
export const CLOSE_TURN = script(`${MARK_REPLACED}
if ARGV[2] == '1' then
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('HDEL', KEYS[3], ARGV[1])
else
  markReplaced(ARGV[1], ARGV[4], ARGV[5])
end
if redis.call('HGET', KEYS[1], 'open') == ARGV[1] then
  redis.call('HDEL', KEYS[1], 'open', 'openUntil')
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[3]) end
end
return 1`)

/**
 * Removes turns without records from the list, except one being created, which has no record yet.
 * ARGV  turn ids
 */
export const FORGET_TURNS = script(`
local open = redis.call('HGET', KEYS[1], 'open')
for _, turnId in ipairs(ARGV) do
  if turnId ~= open then
    redis.call('ZREM', KEYS[2], turnId)
    redis.call('HDEL', KEYS[3], turnId)
  end
end
return 1`)

/**
 * Creates a thread or replaces its title and metadata.
 * ARGV  thread retention (ms), creation of a new thread, what to replace ('any', 'none' or
 *       '<creation> <version>'), then fields and values
 * Returns creation, version, createdAt, updatedAt; nothing on a conflict.
 */
export const PUT_THREAD = script(`${NOW}${KEEP}
local createdAt, creation, version =
  unpack(redis.call('HMGET', KEYS[1], 'createdAt', 'creation', 'version'))
local found = createdAt and (creation or createdAt) .. ' ' .. (version or '0') or 'none'
if ARGV[3] ~= 'any' and ARGV[3] ~= found then return {} end
redis.call('HDEL', KEYS[1], 'title', 'metadata')
redis.call('HSETNX', KEYS[1], 'createdAt', text(now))
redis.call('HSETNX', KEYS[1], 'creation', creation or createdAt or ARGV[2])
redis.call('HSET', KEYS[1], 'updatedAt', text(now), unpack(ARGV, 4))
version = redis.call('HINCRBY', KEYS[1], 'version', 1)
keep(KEYS[1], ARGV[1])
createdAt, creation = unpack(redis.call('HMGET', KEYS[1], 'createdAt', 'creation'))
return { creation, tostring(version), createdAt, text(now) }`)

/**
 * Adds a member to an index and removes members older than any possible entry.
 * KEYS  index
 * ARGV  score (ms), member, retention of the index (ms)
 */
export const INDEX = script(`${NOW}${KEEP}
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
keep(KEYS[1], ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. text(now - redis.call('PTTL', KEYS[1])))
return 1`)

/**
 * Lists members with a past score, oldest first.
 * KEYS  index
 * ARGV  offset, limit
 * Returns each member and its score.
 */
export const DUE = script(`${NOW}
return redis.call('ZRANGE', KEYS[1], '-inf', text(now), 'BYSCORE', 'LIMIT', ARGV[1], ARGV[2], 'WITHSCORES')`)

/**
 * Removes a member from an index, unless its score has changed since it was read.
 * KEYS  index
 * ARGV  member, score
 */
export const DROP = script(`
if redis.call('ZSCORE', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('ZREM', KEYS[1], ARGV[1])`)

/**
 * Extends the expiry of keys.
 * KEYS  the keys
 * ARGV  retention (ms)
 */
export const KEEP_KEYS = script(`${KEEP}
for _, key in ipairs(KEYS) do keep(key, ARGV[1]) end
return 1`)
