import type { SettingName } from '@turnstream/core/internal/formats/provider-request'
import { MAX_CALL_ID_CHARS } from '@turnstream/core/internal/formats/sent-call-ids'
import { applyFit } from '@turnstream/core/internal/formats/settings'
import type { Submission } from '@turnstream/core/internal/formats/submission'
import { isRecord } from '@turnstream/core/internal/protocol/json'
import type { ChosenModel } from './providers.ts'

export interface FittedSubmission {
  readonly chosen: ChosenModel
  readonly submission: Submission
  readonly ignored: readonly string[]
}

/** Leaves out optional settings that the provider does not have. The response then does not repeat them. */
export function fitSubmission(submission: Submission, chosen: ChosenModel): FittedSubmission {
  const { settings, parameters, settingSources: sources } = submission
  const fit = sources && chosen.provider.fit?.({ ...settings, model: chosen.model })
  const names = (fit?.unsupported ?? []).filter(
    (name) => name !== 'longCallIds' || hasLongCallIds(submission),
  )
  if (fit === undefined || names.length === 0) return { chosen, submission, ignored: [] }
  const pathsOf = (each: readonly SettingName[]) => each.flatMap((name) => sources?.[name] ?? [])
  const paths = pathsOf(names.filter((name) => !REPEATED.has(name)))
  const fitted = {
    ...submission,
    ...(settings && { settings: applyFit(settings, { ...fit, unsupported: names }) }),
    ...(parameters && { parameters: paths.reduce(withoutPath, parameters) }),
  }
  return { chosen, submission: fitted, ignored: pathsOf(names) }
}

/** The response repeats these. A client that requested summaries gets all reasoning as such. */
const REPEATED: ReadonlySet<SettingName> = new Set(['strict', 'reasoningSummary'])

function hasLongCallIds({ history = [], input }: Submission): boolean {
  return [...history, ...input].some(
    (item) => 'call_id' in item && item.call_id.length > MAX_CALL_ID_CHARS,
  )
}

/** `service_tier`, or `text.verbosity`. */
function withoutPath(fields: Record<string, unknown>, path: string): Record<string, unknown> {
  const [top = '', inner] = path.split('.')
  const { [top]: value, ...rest } = fields
  if (inner === undefined || !isRecord(value)) return rest
  const { [inner]: _, ...others } = value
  return { ...rest, ...(Object.keys(others).length > 0 && { [top]: others }) }
}
