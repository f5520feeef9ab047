import { type Check, checkNamed } from '@turnstream/conformance/internal/endpoint/check'
import { type Answer, call } from '@turnstream/conformance/internal/endpoint/http'
import type { Clock } from '@turnstream/core/internal/async/clock'
import { BASE_URL as GEMINI_URL } from '@turnstream/core/internal/formats/gemini/request-out'
import {
  BASE_URL as ANTHROPIC_URL,
  API_VERSION,
} from '@turnstream/core/internal/formats/messages/request-out'
import { BASE_URL as OPENAI_URL } from '@turnstream/core/internal/formats/responses/request-out'
import { joinUrl } from '@turnstream/core/internal/formats/vendor-request'
import { isRecord, parseJsonObject } from '@turnstream/core/internal/protocol/json'
import type { ProviderKind } from '../../providers/provider.ts'
import { usageFault } from '../command.ts'
import type { Configuration } from '../serve/configuration.ts'
import {
  activeProviders,
  defaultModelFor,
  missingFor,
  type ProviderPlan,
  providerPlans,
  readKey,
} from '../serve/providers.ts'
import { readClock } from './machine-checks.ts'

/** The path at which each kind lists its models, and the header of its key. */
const LISTINGS = {
  openai: { baseUrl: OPENAI_URL, path: '/models', header: 'authorization' },
  anthropic: { baseUrl: ANTHROPIC_URL, path: '/v1/models?limit=1000', header: 'x-api-key' },
  gemini: { baseUrl: GEMINI_URL, path: '/v1beta/models?pageSize=1000', header: 'x-goog-api-key' },
  'openai-compatible': { baseUrl: '', path: '/models', header: 'authorization' },
} satisfies Record<ProviderKind, object>

export function checkProviders(configuration: Configuration, clock: Clock) {
  const { env } = configuration
  return Promise.all(providerPlans(configuration).map((plan) => checkProvider(plan, env, clock)))
}

async function checkProvider(plan: ProviderPlan, env: Configuration['env'], clock: Clock) {
  const { id, kind, keyVariable = 'its key', setting } = plan
  const { skipped, fail } = checkNamed(`provider ${id}`)
  const fault = usageFault(() => readKey(plan, env))
  if (fault !== undefined) {
    const fix = `Set ${keyVariable}, or ${keyVariable}_FILE to a file that this user can read`
    return { check: fail(fault, fix) }
  }
  const key = readKey(plan, env)
  const missing = missingFor(plan, key)
  if (missing !== undefined) return { check: skipped(`no ${missing}`) }
  const { path, header, baseUrl: usual } = LISTINGS[kind]
  const baseUrl = setting.baseUrl ?? usual
  const headers = {
    ...(key !== undefined && { [header]: header === 'authorization' ? `Bearer ${key}` : key }),
    ...(kind === 'anthropic' && { 'anthropic-version': API_VERSION }),
  }
  const answer = await call({ url: joinUrl(baseUrl, path), headers, clock })
  if ('reason' in answer) {
    const fix = `Check network, proxy and baseUrl: curl -v ${baseUrl}`
    return { check: fail(`${baseUrl} is unreachable: ${answer.reason}`, fix) }
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
  const { ok, warn, fail } = checkNamed(`provider ${id}`)
  const model = defaultModelFor(plan)
  // Google returns 400 where others return 401.
  if ([401, 403].includes(status) || /API_KEY_INVALID/.test(body)) {
    const verb = hasKey ? `refuses the key in ${keyVariable}` : 'requires a key'
    return fail(`${baseUrl} ${verb} (${status})`, `Set ${keyVariable} to a valid key`)
  }
  if (status >= 300 && status < 400) {
    const fix = `Set baseUrl of ${id} in turnstream.config.json to the final URL`
    return fail(`${baseUrl} redirects (${status}); keys are not sent along`, fix)
  }
  const models = modelsIn(body)
  if (model === undefined) {
    const example = models?.[0] === undefined ? '' : `=${models[0]}`
    const fix = isOwn ? `Set models of ${id}` : `Set OPENAI_COMPATIBLE_MODEL${example}`
    return fail(`no model configured for ${baseUrl}`, fix)
  }
  const { path } = LISTINGS[kind]
  if (status !== 200) {
    const fix = `Inspect the response: curl -v ${baseUrl}${path.replace(/\?.*/, '')}`
    return warn(`${baseUrl} returned ${status} for its model list`, fix)
  }
  if (models === undefined) {
    const fix = `Check the URL: curl ${baseUrl}${path}`
    return warn(`${baseUrl} responds, but not with a model list`, fix)
  }
  if (models.includes(model)) return ok(`${baseUrl} has ${model}`)
  const some = models.slice(0, 3).join(', ')
  return warn(
    `${baseUrl} does not list ${model}; it has ${models.length}: ${some}${models.length > 3 ? ', …' : ''}`,
    `Set defaultModel of ${id} in turnstream.config.json to a listed one`,
  )
}

/** `data[].id`, and of Gemini `models[].name` without its `models/`. */
function modelsIn(body: string): string[] | undefined {
  const { data, models } = parseJsonObject(body) ?? {}
  const list = data ?? models
  if (!Array.isArray(list)) return undefined
  return list.flatMap((each: unknown) => {
    const id = isRecord(each) ? (each['id'] ?? each['name']) : undefined
    return typeof id === 'string' ? [id.replace(/^models\//, '')] : []
  })
}

export function defaultProviderCheck(configuration: Configuration): Check {
  const name = 'default provider'
  const { ok, skipped, fail } = checkNamed(name)
  let found = ''
  const fault = usageFault(() => {
    const [first] = activeProviders(configuration)
    found = `${first?.provider.id}/${first?.defaultModel}`
  })
  if (fault === undefined) return ok(found)
  if (!fault.includes(name)) return skipped('some providers are unusable')
  const fix =
    'Set what is missing, or pass --default-provider <id>; list providers with: turnstream config print'
  return fail(fault, fix)
}
