import { json } from './fake-endpoint.ts'
import { choiceOf, eachChunk, isFinish, type Json, type Planted } from './planted.ts'

export const PLANTED_ANSWERS: readonly Planted[] = [
  {
    fault: 'unrequested usage',
    faults: eachChunk((each) => {
      const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
      return isFinish(each) && choiceOf(each)['finish_reason'] === 'tool_calls'
        ? [each, { ...each, choices: [], usage }]
        : each
    }),
    check: 'usage unasked',
    expected: /no usage without/,
    came: /prompt_tokens.*requested a tool call/,
  },
  {
    fault: 'usage in the finish chunk',
    faults: eachChunk((each, at, all) => {
      if (each['usage']) return undefined
      const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
      return isFinish(each) && at < all - 1 ? { ...each, usage } : each
    }),
    check: 'usage chunk',
    expected: /choices: \[\]/,
    came: /^usage in .*finish_reason/,
  },
  {
    fault: 'missing usage with include_usage',
    faults: eachChunk((each) => (each['usage'] ? undefined : each)),
    check: 'usage chunk',
    expected: /one chunk with usage/,
    came: /no chunk with usage/,
  },
  {
    fault: 'an answer without usage',
    faults: {
      answer: (answer) => {
        delete answer['usage']
      },
    },
    check: 'answer',
    expected: /usage: counts of tokens/,
    came: /usage: nothing/,
  },
  {
    fault: 'an answer whose content is a list',
    faults: {
      answer: (answer) => {
        const message = choiceOf(answer)['message'] as Json
        message['content'] = [{ type: 'text', text: 'x' }]
      },
    },
    check: 'answer',
    expected: /message\.content: a text/,
    came: /"type":"text"/,
  },
  {
    fault: 'an unknown model that is accepted',
    faults: {
      request: (request) => {
        if (String(request?.['model']).includes('no-such-model')) request!['model'] = 'model-a'
        return false
      },
    },
    check: 'unknown model',
    expected: /status 404 or 400/,
    came: /status 200/,
  },
  {
    fault: 'an HTML error page for malformed JSON',
    faults: {
      request: (request, response) => {
        if (request !== undefined) return false
        response.writeHead(500, { 'content-type': 'text/html' }).end('<h1>Internal Server Error')
        return true
      },
    },
    check: 'malformed body',
    expected: /status 400 with \{"error"/,
    came: /status 500: <h1>/,
  },
  {
    fault: 'an error in another format',
    faults: {
      request: (request, response) => {
        if (request !== undefined) return false
        json(response, 400, { detail: 'not JSON' })
        return true
      },
    },
    check: 'malformed body',
    expected: /"error":\{"message"/,
    came: /status 400: \{"detail"/,
  },
  {
    fault: 'a wrong key that is accepted',
    faults: { anyKey: true },
    check: 'wrong key',
    expected: /status 401/,
    came: /status 200/,
  },
  {
    fault: 'a models response without a list',
    faults: { models: (response) => json(response, 200, { data: [{ id: 'model-a' }] }) },
    check: 'models',
    expected: /"object":"list"/,
    came: /model-a/,
  },
]
