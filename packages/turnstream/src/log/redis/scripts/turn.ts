import { script } from '../client.ts'
import { EVENTS_STATE, NOW } from './log.ts'

/**
 * Reads the record of one log of a turn. The state of log A is in its last chunk.
 * KEYS  state, meta, stream
 * Returns the time (ms), the state ('' if there is none), 1 if the stream exists, the fields of meta.
 */
export const READ_META = script(`${NOW}
return { text(now), redis.call('GET', KEYS[1]) or '', redis.call('EXISTS', KEYS[3]),
  redis.call('HGETALL', KEYS[2]) }`)

/**
 * Creates log A, with a higher epoch than any deleted log of this run. A run whose turn was never created may be
 * taken over after its time limit.
 * KEYS  state, events, meta, fence
 * ARGV  turn id, lease (ms), retention of an open log (ms), turn to take the run from, creation
 * Returns '', the creation id of the first attempt, and the epoch; or the turn that owns the run.
 */
export const CREATE_RUN = script(`${NOW}${EVENTS_STATE}
local owner, until_ = unpack(redis.call('HMGET', KEYS[3], 'turn', 'until'))
if owner and owner ~= ARGV[1] then
  local isNew = string.match(stateOf(KEYS[1], KEYS[2]) or '', ':0$')
  local isLeft = owner == ARGV[4] and isNew and now >= tonumber(until_)
  if not isLeft then return { owner } end
  redis.call('HSET', KEYS[3], 'creation', ARGV[5])
end
redis.call('HSET', KEYS[3], 'turn', ARGV[1], 'until', text(now + ARGV[2]))
redis.call('PEXPIRE', KEYS[3], ARGV[3])
local epoch = text((tonumber(redis.call('GET', KEYS[4])) or 0) + 1)
if redis.call('SET', KEYS[1], epoch .. ':0', 'PX', ARGV[3], 'NX') then
  redis.call('HSET', KEYS[3], 'epochs', epoch .. ':1', 'creation', ARGV[5])
  -- Adding and trimming an entry creates the stream, so that it can expire from the start. After it the stream
  -- accepts no id of an earlier epoch.
  redis.call('XADD', KEYS[2], epoch .. '-0', 'lines', '')
  redis.call('XTRIM', KEYS[2], 'MAXLEN', 0)
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
end
return { '', redis.call('HGET', KEYS[3], 'creation'), string.match(redis.call('GET', KEYS[1]), '^%d+') }`)

/**
 * Creates log B and the turn's record: from now on the turn exists. The nonce identifies a repeated call.
 * KEYS  state, processed, meta
 * ARGV  nonce, lease (ms), retention of an open log (ms), until when the index names the turn,
 *       creation, epoch, other fields and values of meta
 * Returns the lease expiry, '' if the turn already exists, or 'late' if the index may have dropped it.
 */
export const CREATE_TURN = script(`${NOW}
local nonce, ends = unpack(redis.call('HMGET', KEYS[3], 'nonce', 'until'))
if nonce then return nonce == ARGV[1] and ends or '' end
if now >= tonumber(ARGV[4]) then return 'late' end
local ends = text(now + ARGV[2])
redis.call('HSET', KEYS[3], 'nonce', ARGV[1], 'until', ends, 'createdAt', text(now),
  'epochs', ARGV[6] .. ':1', 'creation', ARGV[5], unpack(ARGV, 7))
redis.call('PEXPIRE', KEYS[3], ARGV[3])
redis.call('SET', KEYS[1], ARGV[6] .. ':0@' .. ARGV[5], 'PX', ARGV[3])
redis.call('XADD', KEYS[2], '0-1', 'eventId', '')
redis.call('XTRIM', KEYS[2], 'MAXLEN', 0)
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return ends`)

/**
 * Extends a lease that has not expired.
 * KEYS  meta, state, processed, items, values
 * ARGV  epoch, lease (ms), retention of an open log (ms), creation of the turn
 * Returns 'ok', the new expiry and the thread; or the reason: 'gone', 'over', or 'lost' and the state.
 */
export const RENEW = script(`${NOW}
local state = redis.call('GET', KEYS[2])
local isSame = redis.call('HGET', KEYS[1], 'creation') == ARGV[4]
if not state or not isSame then return { 'gone' } end
if string.match(state, '^%d+') ~= ARGV[1] then return { 'lost', state } end
if ARGV[5] == '' and now >= tonumber(redis.call('HGET', KEYS[1], 'until')) then return { 'over' } end
local ends = text(now + ARGV[2])
redis.call('HSET', KEYS[1], 'until', ends)
if redis.call('HEXISTS', KEYS[1], 'settled') == 0 then
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[3]) end
end
return { 'ok', ends, redis.call('HGET', KEYS[1], 'threadId') }`)

/**
 * Extends the expiry of log A to match log B, while the turn is open.
 * KEYS  meta, and the other keys of the log
 * ARGV  retention of an open log (ms)
 */
export const KEEP_OPEN = script(`
if redis.call('HEXISTS', KEYS[1], 'settled') == 1 then return 0 end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[1]) end
return 1`)

/**
 * Starts the retention of a log whose turn has ended: both logs are sealed.
 * KEYS  meta, state, and the other keys of the log
 * ARGV  retention of the log (ms) and of the record (ms)
 */
export const SETTLE = script(`
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HSETNX', KEYS[1], 'settled', 1) == 0 then return 0 end
for at, key in ipairs(KEYS) do redis.call('PEXPIRE', key, at <= 2 and ARGV[2] or ARGV[1]) end
return 1`)

/**
 * First step of a claim: raises the epoch of log A, if no other claim has done so since it was read. It blocks others
 * for a limited time. Live lines of the old epoch become a chunk: no chunk has two epochs.
 * KEYS  state, events, chunks, meta, response
 * ARGV  epoch as read, claim as read, nonce, time limit of a claim (ms), retention of an open log (ms),
 *       creation of the turn
 * Returns the new epoch and the head, or nothing.
 */
export const CLAIM_EVENTS = script(`${NOW}${EVENTS_STATE}
local state, events, chunks, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local found = stateOf(state, events)
if not found or redis.call('HGET', meta, 'creation') ~= ARGV[6] then return {} end
local epoch, head, mark = string.match(found, '^(%d+):(%d+)(.*)$')
local claim, claimUntil, epochs = unpack(redis.call('HMGET', meta, 'claim', 'claimUntil', 'epochs'))
if claim == ARGV[3] then return { epoch, head } end
if epoch ~= ARGV[1] or (claim or '') ~= ARGV[2] then return {} end
if claim and now < tonumber(claimUntil) then return {} end

local parts = {}
if mark == '' then
  for _, entry in ipairs(redis.call('XRANGE', events, '-', '+')) do parts[#parts + 1] = entry[2][2] end
end
if #parts > 0 then
  local last = redis.call('XREVRANGE', events, '+', '-', 'COUNT', 1)[1][1]
  redis.call('XADD', chunks, last, 'lines', table.concat(parts, '\\n'))
  redis.call('XTRIM', events, 'MAXLEN', 0)
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[5]) end
local raised = text(epoch + 1)
redis.call('SET', state, raised .. ':' .. head .. mark, 'KEEPTTL')
-- From here on the stream accepts no id of an earlier epoch.
if mark == '' then redis.call('XSETID', events, raised .. '-' .. head) end
redis.call('HSET', meta, 'claim', ARGV[3], 'claimUntil', text(now + ARGV[4]),
  'epochs', epochs .. ',' .. raised .. ':' .. text(head + 1))
return { raised, head }`)

/**
 * Second step of a claim: raises the epoch of log B and grants the lease.
 * KEYS  meta, state, processed, items, values
 * ARGV  epoch, nonce, owner, lease (ms), retention of an open log (ms), creation of the turn
 * Returns the lease expiry and the head, or nothing.
 */
export const CLAIM_PROCESSED = script(`${NOW}
local found = redis.call('GET', KEYS[2])
if not found or redis.call('HGET', KEYS[1], 'creation') ~= ARGV[6] then return {} end
local epoch, head, mark = string.match(found, '^(%d+):(%d+)(.*)$')
local nonce, ends, epochs = unpack(redis.call('HMGET', KEYS[1], 'nonce', 'until', 'epochs'))
if nonce == ARGV[2] then return { ends, head } end
if tonumber(epoch) >= tonumber(ARGV[1]) or now < tonumber(ends) then return {} end
local ends = text(now + ARGV[4])
redis.call('SET', KEYS[2], ARGV[1] .. ':' .. head .. mark, 'KEEPTTL')
redis.call('HSET', KEYS[1], 'nonce', ARGV[2], 'owner', ARGV[3], 'until', ends,
  'epochs', epochs .. ',' .. ARGV[1] .. ':' .. text(head + 1))
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[5]) end
redis.call('SPUBLISH', KEYS[1], '')
return { ends, head }`)

/**
 * Third step of a claim: completes it, unless another claim considered it dead.
 * KEYS  meta of log A
 * ARGV  nonce, epoch
 * Returns 1 if the claim is valid.
 */
export const CONFIRM_CLAIM = script(`
local claim, confirmed = unpack(redis.call('HMGET', KEYS[1], 'claim', 'confirmed'))
if confirmed == ARGV[1] then return 1 end
if claim ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], 'claim', 'claimUntil')
redis.call('HSET', KEYS[1], 'confirmed', ARGV[1])
return 1`)

/**
 * Asks the owner to stop; the first reason wins.
 * KEYS  meta of log B
 * ARGV  reason
 * Returns 1, or 0 if there is no such turn.
 */
export const CANCEL = script(`
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSETNX', KEYS[1], 'cancel', ARGV[1])
redis.call('SPUBLISH', KEYS[1], '')
return 1`)

const REMOVE = `
local creation = redis.call('HGET', KEYS[1], 'creation')
if creation and creation ~= ARGV[1] then return 0 end
local function remove(keys)
  for _, key in ipairs(keys) do
    redis.call('DEL', key)
    redis.call('SPUBLISH', key, '')
  end
end`

/**
 * Removes log A of a turn, unless it is of a newer one. If an owner may still write, its epoch is remembered.
 * KEYS  meta, state, events, chunks, response, fence
 * ARGV  creation of the turn, retention of the epoch (ms)
 * Returns 0 if the log belongs to another turn.
 */
export const REMOVE_EVENTS = script(`${REMOVE}
local epoch, mark = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+):%d+(!?)$')
if epoch and not (epoch == '1' and mark == '!') then redis.call('SET', KEYS[6], epoch, 'PX', ARGV[2]) end
remove({ KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5] })
return 1`)

/**
 * Removes log B of a turn and its record, and notifies its subscribers. A newer turn with the same id stays.
 * KEYS  meta, state, processed, items, values
 * ARGV  creation of the turn
 */
export const REMOVE_PROCESSED = script(`${REMOVE}
remove(KEYS)
return 1`)
