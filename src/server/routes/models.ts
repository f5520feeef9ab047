import * as z from 'zod'
import { TurnstreamError } from '../../protocol/errors.ts'
import { ROUTES } from '../../protocol/names.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import * as spec from './spec.ts'

const modelSchema = z
  .object({
    id: z.string().meta({ description: '`<providerId>/<modelId>`' }),
    object: z.literal('model'),
    created: z.number().meta({ description: 'Since when this server has it, in seconds' }),
    owned_by: z.string().meta({ description: 'The provider' }),
  })
  .meta({ id: 'Model' })

const modelsSchema = z
  .object({ object: z.literal('list'), data: z.array(modelSchema) })
  .meta({ id: 'Models' })

const listRoute = spec.route('get', ROUTES.models, {
  summary: 'List the models, as OpenAI does',
  description:
    'Those that the providers list. Others of a provider are called as `<providerId>/<modelId>`, as are those of ' +
    '`scripted` where there is another provider.',
  tags: ['openai'],
  responses: { 200: spec.json('All of them', modelsSchema), ...spec.openaiRefusals() },
})

const readRoute = spec.route('get', ROUTES.model, {
  summary: 'Read a model, as OpenAI does',
  tags: ['openai'],
  request: { params: z.object({ model: z.string().min(1).max(300) }) },
  responses: { 200: spec.json('The model', modelSchema), ...spec.openaiRefusals('MODEL_UNKNOWN') },
})

export function addModelRoutes(app: GatewayApp, { providers, clock }: GatewayContext): void {
  const created = Math.floor(clock.now() / 1000)

  function toModel(id: string): z.infer<typeof modelSchema> {
    return { id, object: 'model', created, owned_by: id.slice(0, id.indexOf('/')) }
  }

  app.openapi(listRoute, (c) =>
    c.json({ object: 'list' as const, data: providers.models.map(toModel) }, 200),
  )

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
