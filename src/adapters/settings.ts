import { isRecord } from '../protocol/json.ts'
import type { Fields } from './fields.ts'
import type { ModelSettings, SettingName, ToolDefinition } from './provider.ts'
import { invalidOption } from './vendor-request.ts'

interface SettingValues extends Required<Omit<ModelSettings, 'model' | 'tools' | 'toolChoice'>> {
  strict: true
  name: true
  compaction: true
}

/** Returns the fields of the body, or why the vendor does not take this value. */
type Writer<Value> = (value: Value, request: ModelSettings) => Fields | string

/**
 * How a vendor writes each setting: requests are built from this table, and what it lacks is known from it before a call.
 * A text is the reason why the vendor lacks the setting. Settings that depend on others come after them.
 */
export type VendorSettings = {
  readonly [Name in SettingName]: string | Writer<SettingValues[Name]>
}

/** The vendor takes the setting; the tools or messages of the request have it. */
export const WITHIN: Writer<unknown> = () => ({})

/** The vendor always caches prompts. */
export const BY_ITSELF = 'prompts are cached without it'

/** Writes the settings of a request. OPTION_INVALID for the first one that the vendor does not take. */
export function writeSettings(table: VendorSettings, request: ModelSettings): Fields {
  let body: Fields = {}
  for (const name of namesOf(table)) {
    if (isOfItems(name)) continue
    const written = write(table, name, request)
    if (typeof written === 'string')
      throw invalidOption(name === 'strict' ? 'tools' : name, written)
    body = merge(body, written)
  }
  return body
}

/** Lists the settings to leave out, so that the vendor takes the others. */
export function unsupportedSettings(table: VendorSettings, request: ModelSettings): SettingName[] {
  const names: SettingName[] = []
  for (const name of namesOf(table)) {
    const taken = withoutSettings(request, names)
    if (typeof write(table, name, taken) === 'string') names.push(name)
  }
  return names
}

/** Leaves out settings. */
export function withoutSettings<Settings extends Partial<ModelSettings>>(
  settings: Settings,
  names: readonly SettingName[],
): Settings {
  if (names.length === 0) return settings
  const { tools, ...rest } = settings
  const kept = Object.entries(rest).filter(([name]) => !names.includes(name as SettingName))
  const given = names.includes('strict') ? tools?.map(withoutStrict) : tools
  return { ...Object.fromEntries(kept), ...(given && { tools: given }) } as Settings
}

function withoutStrict({ strict: _strict, ...tool }: ToolDefinition): ToolDefinition {
  return tool
}

function namesOf(table: VendorSettings): SettingName[] {
  return Object.keys(table) as SettingName[]
}

function write(table: VendorSettings, name: SettingName, request: ModelSettings): Fields | string {
  const value = valueOf(name, request)
  if (value === undefined) return {}
  const writer = table[name] as string | Writer<unknown>
  return typeof writer === 'string' ? writer : writer(value, request)
}

/** What items have. Threads may continue with other vendors, where it is left out. */
function isOfItems(name: SettingName): name is 'name' | 'compaction' {
  return name === 'name' || name === 'compaction'
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
