import { isRecord } from '../protocol/json.ts'
import type { Fields } from './fields.ts'
import { type Effort, effortOfBudget, nearestEffort } from './model-traits.ts'
import type {
  FittedSettings,
  ModelSettings,
  SettingName,
  ThinkingParameters,
  ToolDefinition,
} from './provider-request.ts'
import { invalidOption } from './vendor-request.ts'

/** What items have. Threads may continue with other vendors, where it is left out. */
type ItemSetting = 'name' | 'compaction' | 'longCallIds'

type SettingValues = Required<Omit<ModelSettings, 'model' | 'tools' | 'toolChoice'>> &
  Record<'strict' | ItemSetting, true>

/** A value that the vendor does not take, and the settings that come closest. */
export class Instead {
  readonly settings: Partial<ModelSettings>
  readonly reason: string

  constructor(settings: Partial<ModelSettings>, reason: string) {
    this.settings = settings
    this.reason = reason
  }
}

/** The fields of the body, or why the vendor does not take a value. */
export type Written = Fields | string | Instead

type Writer<Value> = (value: Value, request: ModelSettings) => Written

/** How a vendor writes each setting, or the reason why it lacks it. Settings that depend on others come after them. */
export type VendorSettings = {
  readonly [Name in SettingName]: string | Writer<SettingValues[Name]>
}

/** The vendor takes the setting; the tools or messages of the request have it. */
export const WITHIN: Writer<unknown> = () => ({})

export const BY_ITSELF = 'prompts are cached without it'

/** Writes the settings of a request. OPTION_INVALID for the first one that the vendor does not take. */
export function writeSettings(table: VendorSettings, request: ModelSettings): Fields {
  let body: Fields = {}
  for (const name of namesOf(table)) {
    if (isOfItems(name)) continue
    const written = write(table, name, request)
    const reason = written instanceof Instead ? written.reason : written
    if (typeof reason === 'string') throw invalidOption(name === 'strict' ? 'tools' : name, reason)
    body = merge(body, reason)
  }
  return body
}

export function fitSettings(table: VendorSettings, request: ModelSettings): FittedSettings {
  const unsupported: SettingName[] = []
  let nearest: Partial<ModelSettings> = {}
  let taken = request
  for (const name of namesOf(table)) {
    const written = write(table, name, taken)
    if (isTaken(written)) continue
    unsupported.push(name)
    nearest = withoutSettings(nearest, [name])
    if (written instanceof Instead) nearest = { ...nearest, ...written.settings }
    taken = applyFit(request, { unsupported, nearest })
    if (isTaken(write(table, name, taken))) continue
    nearest = withoutSettings(nearest, [name])
    taken = applyFit(request, { unsupported, nearest })
  }
  return { unsupported, nearest }
}

function isTaken(written: Written): written is Fields {
  return typeof written !== 'string' && !(written instanceof Instead)
}

export function applyFit<Settings extends Partial<ModelSettings>>(
  settings: Settings,
  { unsupported, nearest }: FittedSettings,
): Settings {
  return { ...withoutSettings(settings, unsupported), ...nearest }
}

/** For vendors that know only efforts: a budget becomes the effort that it stands for. */
export function budgetAsEffort(reason: string): Writer<number> {
  return (budget, { reasoningEffort: effort, maxOutputTokens }) => {
    const reasoningEffort = effort ?? effortOfBudget(budget, maxOutputTokens)
    return new Instead(reasoningEffort === undefined ? {} : { reasoningEffort }, reason)
  }
}

/** For all vendors but Anthropic: the effort beside its parameters counts. */
export function thinkingAsEffort(
  { type, budgetTokens, display }: ThinkingParameters,
  { reasoningEffort }: ModelSettings,
): Fields | string {
  const isExact = budgetTokens === undefined && display === undefined
  const isOn = type === 'enabled' || type === 'adaptive'
  return isExact && !(isOn && reasoningEffort === undefined) ? {} : 'only Anthropic knows it'
}

/** Whether a client of Anthropic's API has turned thinking off. Its effort then is about the answer. */
export function isOff({ thinking }: ModelSettings): boolean {
  return thinking?.type === 'disabled' || thinking?.type === 'between_tools'
}

export const THINKING_IS_OFF = 'thinking is off'

/** The effort if the model knows it, or the nearest one. */
export function knownEffort(
  effort: Effort,
  efforts: readonly Effort[],
  model: string,
): Effort | Instead {
  if (efforts.includes(effort)) return effort
  const nearest = nearestEffort(effort, efforts)
  if (nearest === undefined) return new Instead({}, `${model} takes no effort`)
  return new Instead({ reasoningEffort: nearest }, `${model} takes ${efforts.join(', ')}`)
}

export function withoutSettings<Settings extends Partial<ModelSettings>>(
  settings: Settings,
  names: readonly SettingName[],
): Settings {
  if (names.length === 0) return settings
  const { tools, ...rest } = settings
  const fields = Object.entries(rest).filter(([name]) => !names.includes(name as SettingName))
  const given = names.includes('strict') ? tools?.map(withoutStrict) : tools
  return { ...Object.fromEntries(fields), ...(given && { tools: given }) } as Settings
}

function withoutStrict({ strict: _strict, ...tool }: ToolDefinition): ToolDefinition {
  return tool
}

function namesOf(table: VendorSettings): SettingName[] {
  return Object.keys(table) as SettingName[]
}

function write(table: VendorSettings, name: SettingName, request: ModelSettings): Written {
  const value = valueOf(name, request)
  if (value === undefined) return {}
  const writer = table[name] as string | Writer<unknown>
  return typeof writer === 'string' ? writer : writer(value, request)
}

function isOfItems(name: SettingName): name is ItemSetting {
  return name === 'name' || name === 'compaction' || name === 'longCallIds'
}

function valueOf(name: SettingName, request: ModelSettings): unknown {
  if (isOfItems(name)) return true
  if (name === 'strict') return request.tools?.some(({ strict }) => strict) ? true : undefined
  const value = request[name]
  return Array.isArray(value) && value.length === 0 ? undefined : value
}

/** Some settings share an object, such as `generationConfig`. */
function merge(body: Fields, more: Fields): Fields {
  const merged = { ...body }
  for (const [name, value] of Object.entries(more)) {
    const before = merged[name]
    merged[name] = isRecord(before) && isRecord(value) ? { ...before, ...value } : value
  }
  return merged
}
