import { script } from '../script.ts'

/**
 * A part of scripts: `stateOf(state, events)` is the state of log A. What is stored says its epoch and
 * whether it is sealed; the head of an open log is in the last id of its stream, so that an append need
 * not write it.
 */
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

/**
 * KEYS  state, meta
 * ARGV  creation of the turn
 * Returns the state of log B, or nothing.
 */
export const READ_PROCESSED_STATE = script(`
if redis.call('HGET', KEYS[2], 'creation') ~= ARGV[1] then return false end
return redis.call('GET', KEYS[1])`)
