import {
  joinTexts,
  MAX_ATTACHMENTS,
  toContents,
} from '@turnstream/core/internal/formats/content-parts'
import { RequestInvalidError } from '@turnstream/core/internal/formats/request-errors'
import { MAX_TEXT_CHARS } from '@turnstream/core/internal/formats/request-in'
import {
  filePart,
  imagePart,
  textOrParts,
  textPart,
} from '@turnstream/core/internal/formats/request-schemas'
import type { HistoryItem, TurnInput } from '@turnstream/core/internal/formats/submission'
import * as z from 'zod'
import * as spec from './spec.ts'

export const MAX_NAME_CHARS = 200

const MAX_INPUT_ITEMS = 1000
/** Each becomes two records of the turn. */
const MAX_HISTORY_ITEMS = 4096

const nameSchema = z.string().min(1).max(MAX_NAME_CHARS)

const userPart = z.discriminatedUnion(
  'type',
  [textPart, imagePart(z.literal('auto').exactOptional()), filePart],
  'must be text, image_url or file',
)

type PartShape = { readonly text: string } | { readonly type: string }

function isNotBlank(content: string | readonly PartShape[]): boolean {
  if (typeof content === 'string') return content.trim() !== ''
  return content.some((part) => !('text' in part) || part.text.trim() !== '')
}

function messageSchema<Origin extends string, Part extends z.ZodType<PartShape>>(
  origin: Origin,
  part: Part,
) {
  const content = textOrParts(part).refine(isNotBlank, 'is empty')
  return spec.object({ type: z.literal('message'), origin: z.literal(origin), content })
}

const userSchema = messageSchema('user', userPart)
const systemSchema = messageSchema('system', textPart)
const agentSchema = messageSchema('agent', textPart)

const outputSchema = spec.object({
  type: z.literal('function_call_output'),
  call_id: nameSchema,
  output: z.string().max(MAX_TEXT_CHARS),
  success: z.boolean(),
})

const callSchema = spec.object({
  type: z.literal('function_call'),
  call_id: nameSchema,
  name: nameSchema,
  arguments: z.string().max(MAX_TEXT_CHARS),
})

const inputItemSchema = z.discriminatedUnion('type', [
  z.discriminatedUnion('origin', [userSchema, systemSchema]),
  outputSchema,
])

const historyItemSchema = z.discriminatedUnion('type', [
  z.discriminatedUnion('origin', [userSchema, systemSchema, agentSchema]),
  callSchema,
  outputSchema,
])

export const inputSchema = z.array(inputItemSchema).min(1).max(MAX_INPUT_ITEMS)
export const historySchema = z.array(historyItemSchema).max(MAX_HISTORY_ITEMS)

interface SubmittedItems {
  readonly input: readonly z.infer<typeof inputItemSchema>[]
  readonly history?: readonly z.infer<typeof historyItemSchema>[] | undefined
}

/** Converts the items of a submit. Throws when they have too many attachments, or outputs without calls. */
export function toTurnItems({ input, history }: SubmittedItems): {
  readonly input: TurnInput[]
  readonly history?: HistoryItem[]
} {
  const items = { input: input.flatMap(toItems), ...(history && { history: toHistory(history) }) }
  refuseAttachments([...(items.history ?? []), ...items.input])
  if (items.history !== undefined) refuseOrphans(history ?? [], input)
  return items
}

function toHistory(history: readonly z.infer<typeof historyItemSchema>[]): HistoryItem[] {
  return history.flatMap((item): HistoryItem[] => {
    if (item.type === 'function_call') return [item]
    if (item.type === 'function_call_output' || item.origin !== 'agent') return toItems(item)
    return [{ ...item, content: textOf(item.content) }]
  })
}

function toItems(item: z.infer<typeof inputItemSchema>): TurnInput[] {
  if (item.type === 'function_call_output') return [item]
  if (item.origin === 'system') return [{ ...item, content: textOf(item.content) }]
  const { type, origin } = item
  return toContents(item.content).map((content) => ({ type, origin, ...content }))
}

function textOf(content: string | readonly { readonly text: string }[]): string {
  return typeof content === 'string' ? content : joinTexts(content.map(({ text }) => text))
}

function refuseAttachments(items: readonly HistoryItem[]): void {
  const lists = items.map((item) => ('attachments' in item ? (item.attachments ?? []) : []))
  const count = lists.flat().length
  if (count <= MAX_ATTACHMENTS) return
  const message = `has ${count} images and files; the limit is ${MAX_ATTACHMENTS}`
  throw new RequestInvalidError([{ path: 'body', message }])
}

/** Vendors refuse an output without a call. With a history, the stored thread has none to offer. */
function refuseOrphans(
  history: NonNullable<SubmittedItems['history']>,
  input: SubmittedItems['input'],
): void {
  const open = new Map<string, number>()
  const places = [
    ...history.map((item, at) => ({ item, path: `body.history.${at}` })),
    ...input.map((item, at) => ({ item, path: `body.input.${at}` })),
  ]
  for (const { item, path } of places) {
    if (item.type === 'message') continue
    const count = (open.get(item.call_id) ?? 0) + (item.type === 'function_call' ? 1 : -1)
    if (count < 0) {
      const message = `no unanswered call ${item.call_id} precedes it`
      throw new RequestInvalidError([{ path: `${path}.call_id`, message }])
    }
    open.set(item.call_id, count)
  }
}
