import * as z from 'zod'
import { TurnstreamError } from '../../protocol/errors.ts'
import { ROUTES } from '../../protocol/names.ts'
import { isAnthropicRequest } from '../anthropic/errors.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import * as spec from './spec.ts'

const modelSchema = z
  .object({
    id: z.string().meta({ description: '`<providerId>/<modelId>`' }),
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
    display_name: z.string(),
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
    'The models that the providers list. Call others as `<providerId>/<modelId>`, also those of ' +
    '`scripted` if there is another provider. A request with `anthropic-version` gets the format of Anthropic.',
  tags: ['openai', 'anthropic'],
  responses: {
    200: spec.json('All models', z.union([modelsSchema, anthropicModelsSchema])),
    ...spec.openaiRefusals(),
  },
})

const readRoute = spec.route('get', ROUTES.model, {
  summary: 'Retrieve a model (OpenAI compatible)',
  tags: ['openai'],
  request: { params: z.object({ model: z.string().min(1).max(300) }) },
  responses: { 200: spec.json('The model', modelSchema), ...spec.openaiRefusals('MODEL_UNKNOWN') },
})

export function addModelRoutes(app: GatewayApp, { providers, clock }: GatewayContext): void {
  const startedAt = clock.now()
  const created = Math.floor(startedAt / 1000)

  function toModel(id: string): z.infer<typeof modelSchema> {
    return { id, object: 'model', created, owned_by: id.slice(0, id.indexOf('/')) }
  }

  function toAnthropicModel(id: string): z.infer<typeof anthropicModelSchema> {
    const created_at = new Date(startedAt).toISOString()
    return { type: 'model', id, display_name: id, created_at }
  }

  app.openapi(listRoute, (c) => {
    const { models } = providers
    if (!isAnthropicRequest(c.req)) {
      return c.json({ object: 'list' as const, data: models.map(toModel) }, 200)
    }
    c.header('request-id', c.get('requestId'))
    const [first_id = null] = models
    const last_id = models.at(-1) ?? null
    const data = models.map(toAnthropicModel)
    return c.json({ data, has_more: false as const, first_id, last_id }, 200)
  })

  app.openapi(readRoute, (c) => {
    const { model } = c.req.valid('param')
    const { models, allModels } = providers
    const id =
      allModels.find((each) => each === model) ??
      // Named without its provider.
      models.find((each) => each.slice(each.indexOf('/') + 1) === model)
    if (id === undefined) throw new TurnstreamError('MODEL_UNKNOWN', model)
    return c.json(toModel(id), 200)
  })
}
