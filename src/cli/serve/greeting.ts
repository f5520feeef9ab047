import { ROUTES } from '../../protocol/names.ts'
import { type ConfiguredProvider, listedModels } from '../../turns/providers.ts'
import { formatDuration } from './duration.ts'
import type { ServeOptions } from './options.ts'
import type { ServerKeys } from './server-keys.ts'
import { describeStore, publicUrl, type StoreChoice } from './store.ts'

/** The default address, which the other commands know by themselves. */
const DEFAULT_URL = 'http://127.0.0.1:4010'

/** For people: where it listens, what it works with, and what to type next. */
export function greeting(url: string, options: ServeOptions, keys?: ServerKeys): string {
  const { store, providers, settings } = options
  const kept = settings.retention === undefined ? '' : `, for ${formatDuration(settings.retention)}`
  const local = url.replace(/\/\/(0\.0\.0\.0|\[::\])/, '//127.0.0.1')
  return [
    `turnstream listening on ${url}`,
    `  store      ${describeStore(store)}${kept}`,
    ...providers.configured.map((each, index) => providerLine(each, index)),
    ...(providers.configured.length === 1 ? [KEYS_ADVICE] : []),
    ...(keys === undefined ? [] : keysLines(keys)),
    `  docs       ${local}${ROUTES.docs}`,
    '',
    `Try it in another terminal${keys === undefined ? '' : ', with a key in TURNSTREAM_KEY'}:`,
    ...tries(local, keys !== undefined).map((line) => `  ${line}`),
    '',
  ].join('\n')
}

const KEYS_ADVICE =
  '             for a real model set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY'

function keysLines({ file, ring }: ServerKeys): string[] {
  return [
    `  keys       needed: ${ring.size} in ${file}`,
    `             after a change of the file: kill -HUP ${process.pid}`,
  ]
}

function providerLine(configured: ConfiguredProvider, index: number) {
  const { provider, models } = configured
  const names = [...listedModels(configured), ...(models === 'any' ? ['any'] : [])].join(', ')
  return `${index === 0 ? '  providers ' : '            '} ${provider.id}: ${names}`
}

/** Lines to copy. The turn has a name, so that they work as they stand; submitted twice, it is one turn. */
function tries(url: string, needsKey: boolean): string[] {
  const key = needsKey ? ' -H "authorization: Bearer $TURNSTREAM_KEY"' : ''
  const body = JSON.stringify({ turnId: 'first-turn', prompt: 'What is turnstream?' })
  const chat = url === DEFAULT_URL ? 'npx turnstream chat' : `npx turnstream chat --url ${url}`
  return [
    `curl -sw '\\n' ${url}${ROUTES.submit}${key} -H 'content-type: application/json' -d '${body}'`,
    `curl -sN ${url}${ROUTES.turnOutputStream.replace(':turnId', 'first-turn')}${key}`,
    chat,
  ]
}

/** The same for programs, as one object. */
export function greetingJson(
  url: string,
  models: readonly string[],
  options: ServeOptions,
  keys?: ServerKeys,
): string {
  const { store, providers } = options
  const ids = providers.configured.map(({ provider }) => provider.id)
  const needed = keys === undefined ? {} : { keys: keys.ring.size }
  return `${JSON.stringify({ url, store: storeJson(store), providers: ids, models, ...needed })}\n`
}

function storeJson(store: StoreChoice): Record<string, string> {
  switch (store.kind) {
    case 'memory':
      return { kind: store.kind }
    case 'embedded':
      return { kind: store.kind, directory: store.directory }
    case 'redis':
      return { kind: store.kind, url: publicUrl(store.url) }
  }
}
