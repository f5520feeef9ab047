import { bearer } from '@turnstream/core/internal/formats/vendor-request'
import { chatChecks } from './chat-checks.ts'
import { modelsFault, modelsOf } from './chat-rules.ts'
import { type Check, fail, ok } from './check.ts'
import { type Api, type Endpoint, plainCheck, REFUSAL_LIMIT_MS, Unanswered } from './exchange.ts'
import { call } from './http.ts'
import { anthropicHeaders, messagesChecks } from './messages-checks.ts'
import { messagesModelsFault } from './messages-rules.ts'
import { responsesChecks } from './responses-checks.ts'

const TESTS = {
  chat: { headers: bearer, modelsFault, checks: chatChecks, variable: 'OPENAI_API_KEY' },
  responses: { headers: bearer, modelsFault, checks: responsesChecks, variable: 'OPENAI_API_KEY' },
  messages: {
    headers: anthropicHeaders,
    modelsFault: messagesModelsFault,
    checks: messagesChecks,
    variable: 'ANTHROPIC_API_KEY',
  },
} satisfies Record<Api, object>

export async function endpointChecks(endpoint: Endpoint): Promise<Check[]> {
  const { api, baseUrl, key, clock, onProgress } = endpoint
  const test = TESTS[api]
  onProgress('its models')
  const modelsCall = {
    url: `${baseUrl}/models`,
    headers: test.headers(key),
    limitMs: REFUSAL_LIMIT_MS,
    clock,
  }
  const models = await call(modelsCall)
  if ('reason' in models) {
    const fix = `Check the URL: curl -v ${baseUrl}/models`
    return [fail('models', `${baseUrl} is unreachable: ${models.reason}`, fix)]
  }
  // All other requests would fail the same way.
  if (models.status === 401) {
    const verb = key === undefined ? 'requires a key' : 'refuses the key'
    const fix = `Set ${test.variable} or TURNSTREAM_KEY to a valid key and retry`
    return [fail('models', `it ${verb} (status 401)`, fix)]
  }
  const listed = plainCheck('models', models, test.modelsFault, 'a list')
  const model = endpoint.model ?? modelsOf(models.body)?.[0]
  if (model === undefined) {
    return [listed, fail('model', 'no models listed, and none given', 'Pass --model <model>')]
  }
  const found = [listed, ok('model', model)]
  try {
    return [...found, ...(await test.checks(endpoint, model, modelsCall))]
  } catch (error) {
    if (!(error instanceof Unanswered)) throw error
    const fix = `Check that ${model} answers, or choose another: --model <model>`
    return [...found, fail('answer', `no answer: ${error.message}`, fix)]
  }
}
