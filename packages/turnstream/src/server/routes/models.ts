import { RequestInvalidError } from '@turnstream/core/internal/formats/request-errors'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import * as z from 'zod'
import type { GatewayApp, GatewayContext } from '../context.ts'
import { isAnthropicRequest } from '../errors.ts'
import * as spec from './spec.ts'

const modelSchema = z
  .object({
    id: z.string().describe('`<providerId>/<modelId>`, or an alias'),
    object: z.literal('model'),
    created: z.number().describe('When this server started, in seconds since the epoch'),
    owned_by: z.string().describe('The provider'),
  })
  .meta({ id: 'Model' })

const modelsSchema = z
  .object({ object: z.literal('list'), data: z.array(modelSchema) })
  .meta({ id: 'Models' })

const anthropicModelSchema = z
  .object({
    type: z.literal('model'),
    id: z.string(),
    display_name: z.string().describe('`<providerId>/<modelId>`'),
    created_at: z.string().describe('When this server started, RFC 3339'),
  })
  .meta({ id: 'AnthropicModel' })

const anthropicModelsSchema = z
  .object({
    data: z.array(anthropicModelSchema),
    has_more: z.boolean(),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
  })
  .meta({ id: 'AnthropicModels' })

const modelId = z.string().min(1).max(300)

/** Only for requests with `anthropic-version`. */
const pageQuerySchema = z.object({
  limit: spec.optional(
    z.string().min(1).pipe(z.coerce.number<string>().int().min(1).max(1000)),
    'Of a page in the format of Anthropic; all by default',
  ),
  after_id: spec.optional(modelId, 'The page starts after this model'),
  before_id: spec.optional(modelId, 'The page ends before this model'),
})

const listRoute = spec.route('get', ROUTES.models, {
  summary: 'List the models (OpenAI and Anthropic compatible)',
  description:
    'The models that the providers list, then the aliases. Call others as `<providerId>/<modelId>`, also those of ' +
    '`scripted` if there is another provider. A request with `anthropic-version` gets the format of Anthropic.',
  tags: ['openai', 'anthropic'],
  request: { query: pageQuerySchema },
  responses: {
    200: spec.json(
      'All models, or with `anthropic-version` a page',
      z.union([modelsSchema, anthropicModelsSchema]),
    ),
  },
  refusals: ['REQUEST_INVALID'],
})

const readRoute = spec.route('get', ROUTES.model, {
  summary: 'Retrieve a model (OpenAI and Anthropic compatible)',
  tags: ['openai', 'anthropic'],
  request: { params: z.object({ model: modelId }) },
  responses: { 200: spec.json('The model', z.union([modelSchema, anthropicModelSchema])) },
  refusals: ['MODEL_UNKNOWN'],
})

interface ListedModel {
  readonly id: string
  /** `<providerId>/<modelId>`. */
  readonly model: string
}

/** Pages before a model are read backwards: `hasMore` is about the models before them. */
function pageOf(
  listed: readonly ListedModel[],
  { limit = Infinity, after_id: after, before_id: before }: z.infer<typeof pageQuerySchema>,
): { page: readonly ListedModel[]; hasMore: boolean } {
  const start = after === undefined ? 0 : placeOf(listed, 'after_id', after) + 1
  const end = before === undefined ? listed.length : placeOf(listed, 'before_id', before)
  const range = listed.slice(start, Math.max(start, end))
  const isBackwards = before !== undefined && after === undefined
  const page = isBackwards ? range.slice(-limit) : range.slice(0, limit)
  return { page, hasMore: page.length < range.length }
}

function placeOf(listed: readonly ListedModel[], path: string, id: string): number {
  const place = listed.findIndex((model) => model.id === id)
  if (place < 0) throw new RequestInvalidError([{ path, message: `model ${id} was not found` }])
  return place
}

export function addModelRoutes(app: GatewayApp, { providers, clock }: GatewayContext): void {
  const startedAt = clock.now()
  const created = Math.floor(startedAt / 1000)
  const created_at = new Date(startedAt).toISOString()

  const listed = [
    ...providers.models.map((model) => ({ id: model, model })),
    ...providers.aliases.map(({ alias, model }) => ({ id: alias, model })),
  ]

  const toModel = ({ id, model }: ListedModel): z.infer<typeof modelSchema> => {
    return { id, object: 'model', created, owned_by: model.slice(0, model.indexOf('/')) }
  }

  const toAnthropicModel = ({ id, model }: ListedModel): z.infer<typeof anthropicModelSchema> => {
    return { type: 'model', id, display_name: model, created_at }
  }

  app.openapi(listRoute, (c) => {
    if (!isAnthropicRequest(c.req)) {
      return c.json({ object: 'list' as const, data: listed.map(toModel) }, 200)
    }
    c.header('request-id', c.get('requestId'))
    const { page, hasMore } = pageOf(listed, c.req.valid('query'))
    const first_id = page[0]?.id ?? null
    const last_id = page.at(-1)?.id ?? null
    return c.json({ data: page.map(toAnthropicModel), has_more: hasMore, first_id, last_id }, 200)
  })

  app.openapi(readRoute, (c) => {
    const { model } = c.req.valid('param')
    const found = providers.allModels.includes(model)
      ? { id: model, model }
      : // An alias, or named without its provider.
        listed.find(({ id }) => id === model || id.slice(id.indexOf('/') + 1) === model)
    if (found === undefined) throw new TurnstreamError('MODEL_UNKNOWN', model)
    if (!isAnthropicRequest(c.req)) return c.json(toModel(found), 200)
    c.header('request-id', c.get('requestId'))
    return c.json(toAnthropicModel(found), 200)
  })
}
