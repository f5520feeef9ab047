import {
  type Check,
  fail,
  ok,
  skipped,
  warn,
} from '@turnstream/conformance/internal/endpoint/check'
import { type Answer, bearer, call } from '@turnstream/conformance/internal/endpoint/http'
import type { Clock } from '@turnstream/core/internal/async/clock'
import { BASE_URL as GEMINI_URL } from '@turnstream/core/internal/formats/gemini/request-out'
import {
  BASE_URL as ANTHROPIC_URL,
  API_VERSION,
} from '@turnstream/core/internal/formats/messages/request-out'
import { BASE_URL as OPENAI_URL } from '@turnstream/core/internal/formats/responses/request-out'
import { isRecord, parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import type { ProviderKind } from '../../providers/provider.ts'
import { UsageError } from '../command.ts'
import type { Configuration } from '../serve/configuration.ts'
import {
  activeProviders,
  defaultModelFor,
  missingFor,
  type ProviderPlan,
  providerPlans,
  readKey,
} from '../serve/providers.ts'
import { type ClockReading, readClock } from './machine-checks.ts'

/** The path at which each kind lists its models. */
const LISTINGS = {
  openai: { baseUrl: OPENAI_URL, path: '/models', headers: bearer },
  anthropic: {
    baseUrl: ANTHROPIC_URL,
    path: '/v1/models?limit=1000',
    headers: (key: string) => ({ 'x-api-key': key }),
  },
  gemini: {
    baseUrl: GEMINI_URL,
    path: '/v1beta/models?pageSize=1000',
    headers: (key: string) => ({ 'x-goog-api-key': key }),
  },
  'openai-compatible': { baseUrl: '', path: '/models', headers: bearer },
} satisfies Record<ProviderKind, object>

export function checkProviders(configuration: Configuration, clock: Clock) {
  const { env } = configuration
  return Promise.all(providerPlans(configuration).map((plan) => checkProvider(plan, env, clock)))
}

async function checkProvider(
  plan: ProviderPlan,
  env: Configuration['env'],
  clock: Clock,
): Promise<{ check: Check; time?: ClockReading | undefined }> {
  const { id, kind, keyVariable = 'its key', setting } = plan
  const name = `provider ${id}`
  let key: string | undefined
  try {
    key = readKey(plan, env)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    const fix = `Set ${keyVariable}, or ${keyVariable}_FILE to a file that this user can read`
    return { check: fail(name, error.message, fix) }
  }
  const missing = missingFor(plan, key)
  if (missing !== undefined) return { check: skipped(name, `no ${missing}`) }
  const { path, headers, baseUrl: usual } = LISTINGS[kind]
  const baseUrl = setting.baseUrl ?? usual
  const url = `${baseUrl.replace(/\/+$/, '')}${path}`
  const answer = await call({
    url,
    headers: {
      ...(key !== undefined && headers(key)),
      ...(kind === 'anthropic' && { 'anthropic-version': API_VERSION }),
    },
    clock,
  })
  if ('reason' in answer) {
    const fix = `Check network, proxy and baseUrl: curl -v ${baseUrl}`
    return { check: fail(name, `${baseUrl} is unreachable: ${answer.reason}`, fix) }
  }
  const check = answerCheck(plan, baseUrl, key !== undefined, answer)
  return { check, time: readClock(id, answer) }
}

function answerCheck(
  plan: ProviderPlan,
  baseUrl: string,
  hasKey: boolean,
  { status, body }: Answer,
): Check {
  const { id, kind, isOwn, keyVariable = `keyVariable of ${id}` } = plan
  const name = `provider ${id}`
  const model = defaultModelFor(plan)
  // Google returns 400 where others return 401.
  if ([401, 403].includes(status) || /API_KEY_INVALID/.test(body)) {
    const verb = hasKey ? `refuses the key in ${keyVariable}` : 'requires a key'
    const fix = `Set ${keyVariable} to a valid key`
    return fail(name, `${baseUrl} ${verb} (${status})`, fix)
  }
  if (status >= 300 && status < 400) {
    const fix = `Set baseUrl of ${id} in turnstream.config.json to the final URL`
    return fail(name, `${baseUrl} redirects (${status}); keys are not sent along`, fix)
  }
  const models = modelsIn(body)
  if (model === undefined) {
    const example = models?.[0] === undefined ? '' : `=${models[0]}`
    const fix = isOwn ? `Set models of ${id}` : `Set OPENAI_COMPATIBLE_MODEL${example}`
    return fail(name, `no model configured for ${baseUrl}`, fix)
  }
  const { path } = LISTINGS[kind]
  if (status !== 200) {
    const fix = `Inspect the response: curl -v ${baseUrl}${path.replace(/\?.*/, '')}`
    return warn(name, `${baseUrl} returned ${status} for its model list`, fix)
  }
  if (models === undefined) {
    const fix = `Check the URL: curl ${baseUrl}${path}`
    return warn(name, `${baseUrl} responds, but not with a model list`, fix)
  }
  if (models.includes(model)) return ok(name, `${baseUrl} has ${model}`)
  const some = models.slice(0, 3).join(', ')
  return warn(
    name,
    `${baseUrl} does not list ${model}; it has ${models.length}: ${some}${models.length > 3 ? ', …' : ''}`,
    `Set defaultModel of ${id} in turnstream.config.json to a listed one`,
  )
}

/** `data[].id`, and of Gemini `models[].name` without its `models/`. */
function modelsIn(body: string): string[] | undefined {
  const json = parseJsonSafe(body)
  if (!isRecord(json)) return undefined
  const list = json['data'] ?? json['models']
  if (!Array.isArray(list)) return undefined
  return list.flatMap((each: unknown) => {
    const id = isRecord(each) ? (each['id'] ?? each['name']) : undefined
    return typeof id === 'string' ? [id.replace(/^models\//, '')] : []
  })
}

/** Checks the provider of requests without a model. */
export function defaultProviderCheck(configuration: Configuration): Check {
  const name = 'default provider'
  try {
    const [first] = activeProviders(configuration)
    return ok(name, `${first?.provider.id}/${first?.defaultModel}`)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    if (!error.message.includes(name)) return skipped(name, 'some providers are unusable')
    return fail(
      name,
      error.message,
      'Set what is missing, or pass --default-provider <id>; list providers with: turnstream config print',
    )
  }
}
