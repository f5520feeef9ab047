import { createRoute } from '@hono/zod-openapi'
import * as z from 'zod'
import { TurnstreamError } from '../../protocol/errors.ts'
import { ROUTES } from '../../protocol/names.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import { openapiPath } from '../schemas/parts.ts'
import { openaiRefusals } from '../schemas/refusals.ts'

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

const listRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.models),
  summary: 'List the models, as OpenAI does',
  description:
    'Those that the providers list. Others of a provider are called as `<providerId>/<modelId>`, as are those of ' +
    '`scripted` where there is another provider.',
  tags: ['openai'],
  responses: {
    200: {
      description: 'All of them',
      content: { 'application/json': { schema: modelsSchema } },
    },
    ...openaiRefusals(),
  },
})

const readRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.model),
  summary: 'Read a model, as OpenAI does',
  tags: ['openai'],
  request: { params: z.object({ model: z.string().min(1).max(300) }) },
  responses: {
    200: { description: 'The model', content: { 'application/json': { schema: modelSchema } } },
    ...openaiRefusals('MODEL_UNKNOWN'),
  },
})

export function addModelRoutes(app: GatewayApp, { providers, clock }: GatewayContext): void {
  const created = Math.floor(clock.now() / 1000)

  function modelOf(id: string): z.infer<typeof modelSchema> {
    return { id, object: 'model', created, owned_by: id.slice(0, id.indexOf('/')) }
  }

  app.openapi(listRoute, (c) => {
    return c.json({ object: 'list' as const, data: providers.models.map(modelOf) }, 200)
  })

  app.openapi(readRoute, (c) => {
    const { model } = c.req.valid('param')
    const { models, allModels } = providers
    const id =
      allModels.find((each) => each === model) ?? models.find((each) => isBare(each, model))
    if (id === undefined) throw new TurnstreamError('MODEL_UNKNOWN', model)
    return c.json(modelOf(id), 200)
  })
}

/** Whether it is the same model, named without its provider. */
function isBare(id: string, model: string): boolean {
  return id.slice(id.indexOf('/') + 1) === model
}
