import { ROUTES } from '../../protocol/names.ts'
import { listedModels } from '../../turns/providers.ts'
import { DEFAULT_URL } from '../remote/gateway-client.ts'
import { jsonLine } from '../text.ts'
import type { ServeOptions } from './options.ts'
import type { ServerKeys } from './run-server.ts'
import { formatDuration } from './settings.ts'
import { describeStore, publicUrl } from './store.ts'

/** For people: where it listens, what it works with, and what to type next. */
export function banner(url: string, options: ServeOptions, keys?: ServerKeys): string {
  const { store, providers, settings } = options
  const kept = settings.retention === undefined ? '' : `, for ${formatDuration(settings.retention)}`
  const local = url.replace(/\/\/(0\.0\.0\.0|\[::\])/, '//127.0.0.1')
  const lines = providers.map((each) => {
    const names = [...listedModels(each), ...(each.models === 'any' ? ['any'] : [])].join(', ')
    return `${each.provider.id}: ${names}`
  })
  if (providers.length === 1) {
    lines.push('for a real model set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY')
  }
  return [
    `turnstream listening on ${url}`,
    `  store      ${describeStore(store)}${kept}`,
    `  providers  ${lines.join(`\n${' '.repeat(13)}`)}`,
    ...(keys === undefined
      ? []
      : [
          `  keys       needed: ${keys.ring.size} in ${keys.file}`,
          `             after a change of the file: kill -HUP ${process.pid}`,
        ]),
    `  docs       ${local}${ROUTES.docs}`,
    '',
    `Try it in another terminal${keys === undefined ? '' : ', with a key in TURNSTREAM_KEY'}:`,
    ...examples(local, keys !== undefined).map((line) => `  ${line}`),
    '',
  ].join('\n')
}

/** Lines to copy. The turn has an id, so that they work as they stand; submitted twice, it is one turn. */
function examples(url: string, needsKey: boolean): string[] {
  const key = needsKey ? ' -H "authorization: Bearer $TURNSTREAM_KEY"' : ''
  const body = JSON.stringify({ turnId: 'first-turn', prompt: 'What is turnstream?' })
  return [
    `curl -sw '\\n' ${url}${ROUTES.submit}${key} -H 'content-type: application/json' -d '${body}'`,
    `curl -sN ${url}${ROUTES.turnOutputStream.replace(':turnId', 'first-turn')}${key}`,
    `npx turnstream chat${url === DEFAULT_URL ? '' : ` --url ${url}`}`,
  ]
}

/** The same for programs, as one object. */
export function bannerJson(
  url: string,
  models: readonly string[],
  { store: { kind, ...store }, providers }: ServeOptions,
  keys?: ServerKeys,
): string {
  return jsonLine({
    url,
    store: {
      kind,
      ...('directory' in store && { directory: store.directory }),
      ...('url' in store && { url: publicUrl(store.url) }),
    },
    providers: providers.map(({ provider }) => provider.id),
    models,
    ...(keys !== undefined && { keys: keys.ring.size }),
  })
}
