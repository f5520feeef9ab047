import type { SettingName } from '../../adapters/provider.ts'
import { MAX_CALL_ID_CHARS } from '../../adapters/sent-call-ids.ts'
import { withoutSettings } from '../../adapters/settings.ts'
import { isRecord } from '../../protocol/json.ts'
import type { ChosenModel, Providers } from '../../turns/providers.ts'
import type { Submission } from '../../turns/turn-request.ts'
import type { SettingSources } from '../vendor-settings.ts'

/*
 * Requests of vendors' APIs are written for another provider than the one that answers. Hints that it does not have are
 * left out, and named in a header.
 */

interface Request {
  readonly submission: Submission
  readonly sources: SettingSources
}

/** Names the parameters that the chosen provider does not have. None if there is no such provider: the submit fails. */
export function unsupportedNames(providers: Providers, { submission, sources }: Request): string[] {
  const { model, providerId } = submission
  try {
    const chosen = providers.choose({
      ...(model !== undefined && { model }),
      ...(providerId !== undefined && { providerId }),
    })
    return unsupported(submission, chosen).flatMap((name) => sources[name] ?? [])
  } catch {
    return []
  }
}

/** Leaves out what the provider does not have. The response then does not repeat it. */
export function fitted(
  submission: Submission,
  sources: SettingSources,
  chosen: ChosenModel,
): Submission {
  const names = unsupported(submission, chosen)
  if (names.length === 0) return submission
  const nearest = chosen.provider.nearest?.({ ...submission.settings, model: chosen.model })
  const { settings, parameters } = submission
  const paths = names.flatMap((name) => (REPEATED.has(name) ? [] : (sources[name] ?? [])))
  return {
    ...submission,
    ...(settings && { settings: { ...withoutSettings(settings, names), ...nearest } }),
    ...(parameters && { parameters: paths.reduce(withoutPath, parameters) }),
  }
}

/** The response repeats these. A client that requested summaries gets all reasoning as such. */
const REPEATED: ReadonlySet<SettingName> = new Set(['strict', 'reasoningSummary'])

function unsupported(submission: Submission, chosen: ChosenModel): readonly SettingName[] {
  const { settings } = submission
  const names = chosen.provider.unsupported?.({ ...settings, model: chosen.model }) ?? []
  return hasLongCallIds(submission) ? names : names.filter((name) => name !== 'longCallIds')
}

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
  const { [inner]: _, ...kept } = value
  return { ...rest, ...(Object.keys(kept).length > 0 && { [top]: kept }) }
}
