import {
  BASE_URL as ANTHROPIC_URL,
  API_VERSION,
} from '../../adapters/anthropic-messages/request.ts'
import { BASE_URL as GEMINI_URL } from '../../adapters/gemini/request.ts'
import { BASE_URL as OPENAI_URL } from '../../adapters/openai-responses/request.ts'
import type { ProviderKind } from '../../adapters/provider-kinds.ts'
import type { Clock } from '../../async/clock.ts'
import { isRecord, parseJsonSafe } from '../../protocol/json.ts'
import { UsageError } from '../command.ts'
import {
  defaultModelFor,
  keyOf,
  missingFor,
  type ProviderChoice,
  type ProviderPlan,
  providerPlans,
  providersFrom,
} from '../serve/providers.ts'
import { type Check, fail, ok, skipped, warn } from './check.ts'
import { type ClockReading, readingOf } from './clock-check.ts'
import { type Answer, type Looked, look } from './http-look.ts'

export interface ProviderLook {
  readonly check: Check
  readonly time?: ClockReading | undefined
}

interface Listing {
  readonly baseUrl: string | undefined
  readonly path: string
  readonly headers: (key: string) => Record<string, string>
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

/** Where each tells its models. */
const LISTINGS: Readonly<Record<ProviderKind, Listing>> = {
  openai: { baseUrl: OPENAI_URL, path: '/models', headers: bearer },
  anthropic: {
    baseUrl: ANTHROPIC_URL,
    path: '/v1/models?limit=1000',
    headers: (key) => ({ 'x-api-key': key }),
  },
  gemini: {
    baseUrl: GEMINI_URL,
    path: '/v1beta/models?pageSize=1000',
    headers: (key) => ({ 'x-goog-api-key': key }),
  },
  'openai-compatible': { baseUrl: undefined, path: '/models', headers: bearer },
}

/** A provider as it would be called. */
interface Callable {
  readonly plan: ProviderPlan
  readonly baseUrl: string
  readonly key: string | undefined
  readonly model: string | undefined
}

export async function providerLooks(choice: ProviderChoice, clock: Clock): Promise<ProviderLook[]> {
  return Promise.all(providerPlans(choice).map((plan) => providerLook(plan, choice, clock)))
}

async function providerLook(
  plan: ProviderPlan,
  choice: ProviderChoice,
  clock: Clock,
): Promise<ProviderLook> {
  const { id, kind } = plan
  const callable = callableOf(plan, choice)
  if ('verdict' in callable) return { check: callable }
  const { baseUrl, key } = callable
  const { path, headers } = LISTINGS[kind]
  const looked = await look({
    url: `${baseUrl.replace(/\/+$/, '')}${path}`,
    headers: {
      ...(key !== undefined && headers(key)),
      ...(kind === 'anthropic' && { 'anthropic-version': API_VERSION }),
    },
    clock,
  })
  const check = providerCheck(callable, looked)
  if (!('answer' in looked)) return { check }
  return { check, time: readingOf(id, looked.answer.headers.get('date'), looked.answer) }
}

/** What is needed to call it, or why it cannot be called. */
function callableOf(plan: ProviderPlan, choice: ProviderChoice): Callable | Check {
  const { id, kind, keyVariable = 'its key', setting } = plan
  const name = nameOf(id)
  try {
    const key = keyOf(plan, choice.env)
    const missing = missingFor(plan, key)
    if (missing !== undefined) return skipped(name, `no ${missing}`)
    const baseUrl = setting.baseUrl ?? LISTINGS[kind].baseUrl ?? ''
    return { plan, baseUrl, key, model: defaultModelFor(plan) }
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    const fix = `Set ${keyVariable}, or name a file that this user can read with ${keyVariable}_FILE`
    return fail(name, error.message, fix)
  }
}

function nameOf(id: string): string {
  return `provider ${id}`
}

function providerCheck(callable: Callable, looked: Looked): Check {
  const { baseUrl } = callable
  const { id } = callable.plan
  if ('answer' in looked) return answerCheck(callable, looked.answer)
  return fail(
    nameOf(id),
    `${baseUrl} cannot be reached: ${looked.reason}`,
    `Look at the network, the proxy and baseUrl: curl -v ${baseUrl}`,
  )
}

function answerCheck(callable: Callable, { status, body }: Answer): Check {
  const { baseUrl, key } = callable
  const { id, kind, keyVariable = `keyVariable of ${id}` } = callable.plan
  const name = nameOf(id)
  // Google answers 400 where others do 401.
  const isRefused = [401, 403].includes(status) || /API_KEY_INVALID/.test(body)
  if (isRefused) {
    const whose = key === undefined ? 'wants a key' : `refuses the key of ${keyVariable}`
    return fail(
      name,
      `${baseUrl} ${whose} (${status})`,
      `Set ${keyVariable} to a key that is valid`,
    )
  }
  if (status >= 300 && status < 400) {
    const fix = `Set the address that it leads to: baseUrl of ${id} in turnstream.config.json`
    return fail(name, `${baseUrl} sends us elsewhere (${status}), where no key follows`, fix)
  }
  if (status === 200 || callable.model === undefined) return modelsCheck(callable, modelsIn(body))
  const fix = `See what it answers: curl -v ${baseUrl}${LISTINGS[kind].path.replace(/\?.*/, '')}`
  return warn(name, `${baseUrl} answers ${status} when asked for its models`, fix)
}

function modelsCheck({ plan, baseUrl, model }: Callable, models: string[] | undefined): Check {
  const { id, kind, isOwn } = plan
  const name = nameOf(id)
  if (model === undefined) {
    const found = models?.[0] === undefined ? '' : `=${models[0]}`
    const fix = isOwn ? `Set models of ${id}` : `Set OPENAI_COMPATIBLE_MODEL${found}`
    return fail(name, `${baseUrl} has no model set`, fix)
  }
  if (models === undefined) {
    const fix = `See whether it is the right address: curl ${baseUrl}${LISTINGS[kind].path}`
    return warn(name, `${baseUrl} answers, but not with a list of models`, fix)
  }
  if (models.includes(model)) return ok(name, `${baseUrl} has ${model}`)
  const some = models.slice(0, 3).join(', ')
  return warn(
    name,
    `${baseUrl} does not list ${model}; it has ${models.length}: ${some}${models.length > 3 ? ', …' : ''}`,
    `Choose one that it has: defaultModel of ${id} in turnstream.config.json`,
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

/** Who answers when nobody is asked for. */
export function defaultProviderCheck(choice: ProviderChoice): Check {
  const name = 'default provider'
  try {
    const [first] = providersFrom(choice).configured
    return ok(name, `${first?.provider.id}/${first?.defaultModel}`)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    if (!error.message.includes(name)) return skipped(name, 'not all providers can be used')
    return fail(
      name,
      error.message,
      'Set what is missing, or choose another with --default-provider <id>; what there is: turnstream config print',
    )
  }
}
