import {
  callsOf,
  choiceOf,
  eachChunk,
  eachFragment,
  isFinish,
  type Json,
  type Planted,
} from './planted.ts'

export const PLANTED_CALLS: readonly Planted[] = [
  {
    fault: 'fragments of tool calls without an index',
    faults: eachFragment((fragment) => {
      delete fragment['index']
    }),
    check: 'tool index',
    expected: /index in every fragment/,
    came: /get_weather/,
  },
  {
    fault: 'a call that changes its index',
    faults: eachFragment((fragment) => {
      if (fragment['id'] === undefined) fragment['id'] = `call_${String(fragment['index'])}`
      else fragment['index'] = 7 + Number(fragment['index'])
    }),
    check: 'tool index',
    expected: /one index for all fragments/,
    came: /"index":7/,
  },
  {
    fault: 'parallel calls that share index 0',
    faults: eachFragment((fragment) => {
      fragment['index'] = 0
    }),
    check: 'parallel calls',
    expected: /a distinct index/,
    came: /the indices 0, 0/,
  },
  {
    fault: 'a call without a name in its first fragment',
    faults: eachFragment((fragment) => {
      const of = fragment['function'] as Json
      delete of['name']
    }),
    check: 'tool call',
    expected: /id, type "function" and the name/,
    came: /call_0/,
  },
  {
    fault: 'truncated arguments',
    faults: eachChunk((each) => {
      const [call] = callsOf(each)
      const isLast = JSON.stringify(call ?? '').includes('}"')
      return isLast ? undefined : each
    }),
    check: 'tool arguments',
    expected: /add up to a JSON object/,
    came: /\{"city":/,
  },
  {
    fault: 'finish_reason "stop" after tool calls',
    faults: eachChunk((each) => {
      if (isFinish(each)) choiceOf(each)['finish_reason'] = 'stop'
      return each
    }),
    check: 'tool finish',
    expected: /"tool_calls"/,
    came: /^stop/,
  },
]
