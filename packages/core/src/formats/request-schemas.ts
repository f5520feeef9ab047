import * as z from 'zod'
import { dataUrlFault, FILES, IMAGES, type Signatures } from './content-parts.ts'
import { UNSUPPORTED } from './openai-errors.ts'
import { MAX_TEXT_CHARS } from './request-in.ts'

/** A parameter that must be missing or ask for what happens anyway. */
export function unsupported(isSupported: (value: unknown) => boolean, message: string) {
  return z
    .unknown()
    .refine((value) => value === undefined || value === null || isSupported(value), {
      message,
      params: { reason: UNSUPPORTED },
    })
    .optional()
    .meta({ description: message })
}

const NOT_HERE = 'is not supported: leave it out'

function onlyText(value: unknown): boolean {
  return Array.isArray(value) && value.every((each) => each === 'text')
}

/** Refused on every vendor's API: the client would get another answer than it asked for. */
export const REFUSED = {
  n: unsupported((value) => value === 1, 'must be 1: a turn has one answer'),
  logprobs: unsupported((value) => value === false, NOT_HERE),
  top_logprobs: unsupported((value) => value === 0, NOT_HERE),
  audio: unsupported(() => false, NOT_HERE),
  modalities: unsupported(onlyText, 'only text output is supported'),
}

export const modelSchema = z
  .string()
  .min(1)
  .max(300)
  .meta({ description: '`<providerId>/<modelId>`, or only the model' })

export const metadataSchema = z
  .record(z.string().max(64), z.string().max(512))
  .refine((pairs) => Object.keys(pairs).length <= 16, 'has more than 16 pairs')
  .nullish()

export const logitBiasSchema = z
  .record(z.string().regex(/^\d{1,10}$/), z.number().min(-100).max(100))
  .refine((biases) => Object.keys(biases).length <= 1024, 'has more than 1,024 tokens')

/** Any JSON object up to a size, stored unchanged. */
export function jsonObject(maxChars: number) {
  return z
    .record(z.string(), z.unknown())
    .refine(
      (value) => JSON.stringify(value).length <= maxChars,
      `is larger than ${maxChars} characters`,
    )
}

const MAX_PARTS = 1000

export const textPart = z.strictObject({
  type: z.literal('text'),
  text: z.string().max(MAX_TEXT_CHARS),
})

export function imagePart<Detail extends z.ZodType>(detail: Detail) {
  return z.strictObject({ type: z.literal('image_url'), image_url: imageSchema(detail) })
}

function imageSchema<Detail extends z.ZodType>(detail: Detail) {
  return z.strictObject({
    url: dataUrlSchema(IMAGES).meta({ description: 'A data URL: data:image/png;base64,…' }),
    detail,
  })
}

const fileSchema = z.strictObject({
  file_data: dataUrlSchema(FILES).meta({
    description: 'A data URL: data:application/pdf;base64,…',
  }),
  filename: z.string().min(1).max(200).exactOptional(),
})

export const filePart = z.strictObject({ type: z.literal('file'), file: fileSchema })

/** The same parts where unknown fields are ignored. */
export const looseTextPart = textPart.loose()
export const looseFilePart = z.looseObject({ type: z.literal('file'), file: fileSchema.loose() })
export const looseImagePart = z.looseObject({
  type: z.literal('image_url'),
  image_url: imageSchema(z.string().max(100).nullish()).loose(),
})

export function textOrParts<Part extends z.ZodType>(part: Part) {
  const parts = z.array(part).min(1).max(MAX_PARTS)
  const text = z.string().max(MAX_TEXT_CHARS)
  return z.union([text, parts], 'must be a string or a list of parts')
}

function dataUrlSchema(signatures: Signatures) {
  return z.string().superRefine((url, context) => {
    const message = dataUrlFault(url, signatures)
    if (message !== undefined) context.addIssue({ code: 'custom', message })
  })
}
