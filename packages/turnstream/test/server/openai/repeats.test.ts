/** A run that its client has named is the same run when it is asked for again, and so is its failure. */
import { APIError } from 'openai'
import { expect, test } from 'vitest'
import type { Answer } from '../../providers/vendor-server.ts'
import { ASK, clientOf, stage } from './stage.ts'

const refuses: Answer = (response) => {
  response.writeHead(500, { 'content-type': 'application/json' })
  response.end('{"error":{"message":"not now"}}')
}

test.each([
  [true, { 'idempotency-key': 'once' }, 1],
  [false, { 'idempotency-key': 'once' }, 1],
  [true, {}, 2],
  [false, {}, 2],
])('with stream %s and %j a failed run is requested %i times', async (stream, headers, times) => {
  const { server } = await stage('openai-chat', refuses)
  let asked = 0
  const client = clientOf(server, {
    maxRetries: 1,
    fetch: (url, init) => {
      asked += 1
      return fetch(url, init)
    },
  })
  const answer = client.chat.completions.create({ ...ASK, stream }, { headers })
  const error: unknown = await answer.catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(APIError)
  expect(error).toMatchObject({ status: 502, code: 'HTTP_500' })
  expect(asked).toBe(times)
})
