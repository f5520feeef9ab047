import * as z from 'zod'
import { TurnstreamError } from '../../protocol/errors.ts'
import { ROUTES } from '../../protocol/names.ts'
import { isAnthropicRequest } from '../anthropic/errors.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import * as spec from './spec.ts'

const modelSchema = z
  .object({
    id: z.string().meta({ description: '`<providerId>/<modelId>`, or an alias' }),
    object: z.literal('model'),
    created: z
      .number()
      .meta({ description: 'When this server started, in seconds since the epoch' }),
    owned_by: z.string().meta({ description: 'The provider' }),
  })
  .meta({ id: 'Model' })

const modelsSchema = z
  .object({ object: z.literal('list'), data: z.array(modelSchema) })
  .meta({ id: 'Models' })

const anthropicModelSchema = z
  .object({
    type: z.literal('model'),
    id: z.string(),
    display_name: z.string().meta({ description: '`<providerId>/<modelId>`' }),
    created_at: z.string().meta({ description: 'When this server started, RFC 3339' }),
  })
  .meta({ id: 'AnthropicModel' })

const anthropicModelsSchema = z
  .object({
    data: z.array(anthropicModelSchema),
    has_more: z.literal(false),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
  })
  .meta({ id: 'AnthropicModels' })

const listRoute = spec.route('get', ROUTES.models, {
  summary: 'List the models (OpenAI and Anthropic compatible)',
  description:
    'The models that the providers list, then the aliases. Call others as `<providerId>/<modelId>`, also those of ' +
    '`scripted` if there is another provider. A request with `anthropic-version` gets the format of Anthropic.',
  tags: ['openai', 'anthropic'],
  responses: {
    200: spec.json('All models', z.union([modelsSchema, anthropicModelsSchema])),
    ...spec.openaiRefusals(),
  },
})

const readRoute = spec.route('get', ROUTES.model, {
  summary: 'Retrieve a model (OpenAI and Anthropic compatible)',
  tags: ['openai', 'anthropic'],
  request: { params: z.object({ model: z.string().min(1).max(300) }) },
  responses: {
    200: spec.json('The model', z.union([modelSchema, anthropicModelSchema])),
    ...spec.openaiRefusals('MODEL_UNKNOWN'),
  },
})

interface ListedModel {
  readonly id: string
  /** `<providerId>/<modelId>`. */
  readonly model: string
}

export function addModelRoutes(app: GatewayApp, { providers, clock }: GatewayContext): void {
  const startedAt = clock.now()
  const created = Math.floor(startedAt / 1000)

  const listed = [
    ...providers.models.map((model) => ({ id: model, model })),
    ...providers.aliases.map(({ alias, model }) => ({ id: alias, model })),
  ]

  function toModel({ id, model }: ListedModel): z.infer<typeof modelSchema> {
    return { id, object: 'model', created, owned_by: model.slice(0, model.indexOf('/')) }
  }

  function toAnthropicModel({ id, model }: ListedModel): z.infer<typeof anthropicModelSchema> {
    const created_at = new Date(startedAt).toISOString()
    return { type: 'model', id, display_name: model, created_at }
  }

  app.openapi(listRoute, (c) => {
    if (!isAnthropicRequest(c.req)) {
      return c.json({ object: 'list' as const, data: listed.map(toModel) }, 200)
    }
    c.header('request-id', c.get('requestId'))
    const first_id = listed[0]?.id ?? null
    const last_id = listed.at(-1)?.id ?? null
    const data = listed.map(toAnthropicModel)
    return c.json({ data, has_more: false as const, first_id, last_id }, 200)
  })

  app.openapi(readRoute, (c) => {
    const { model } = c.req.valid('param')
    const full = providers.allModels.find((each) => each === model)
    const found =
      full === undefined
        ? // An alias, or named without its provider.
          listed.find(({ id }) => id === model || id.slice(id.indexOf('/') + 1) === model)
        : { id: full, model: full }
    if (found === undefined) throw new TurnstreamError('MODEL_UNKNOWN', model)
    if (!isAnthropicRequest(c.req)) return c.json(toModel(found), 200)
    c.header('request-id', c.get('requestId'))
    return c.json(toAnthropicModel(found), 200)
  })
}
