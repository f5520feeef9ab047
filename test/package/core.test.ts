/**
 * `@turnstream/core` alone, in each runtime.
 *
 * @module-tag slow
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { useBrowser } from '../../packages/turnstream/test/browser/browser.ts'
import { startSite } from '../../packages/turnstream/test/browser/site.ts'
import { installTestClients } from '../../scripts/install-test-clients.mjs'
import { exampleIn, filesUnder, Project, RESOLUTIONS } from './packed.ts'

const RUNTIMES = fileURLToPath(new URL('runtimes', import.meta.url))
/** Bun and Deno are large downloads. */
const INSTALL_MS = 400_000

const { code, printed } = exampleIn('core')
const { newContext } = useBrowser()
const project = new Project()

vi.setConfig({ testTimeout: 60_000 })

beforeAll(() => {
  project.unpack(project.pack('core'))
  project.write('example.mjs', code)
})
afterAll(() => project.remove())

test('the main entry needs no package, in Node', () => {
  expect(readdirSync(join(project.folder, 'node_modules'))).toEqual(['@turnstream'])
  expect(printed).toContain('complete Hello world\n')
  expect(project.runModule(code)).toBe(printed)
})

test('a worker thread', () => {
  const start = "import { Worker } from 'node:worker_threads'\nnew Worker('./example.mjs')\n"
  expect(project.runModule(start)).toBe(printed)
})

describe('other runtimes', () => {
  beforeAll(() => installTestClients(RUNTIMES), INSTALL_MS)

  test('Bun', () => {
    expect(project.run(programOf('@oven', 'bun'), ['example.mjs'])).toBe(printed)
  })

  test('Deno, without permissions', () => {
    const args = ['run', '--no-prompt', '--node-modules-dir=manual', 'example.mjs']
    expect(project.run(programOf('@deno', 'deno'), args)).toBe(printed)
  })
})

test('Chromium, without a bundler', async () => {
  const site = await startSite(
    new Map([...modules(), ['/index.html', PAGE], ['/example.js', code]]),
  )
  onTestFinished(() => site.close())
  const page = await (await newContext()).newPage()
  await page.goto(`${site.url}/index.html`)
  const shown = await page.evaluate(
    () => (globalThis as unknown as { example: Promise<string> }).example,
  )
  expect(shown).toBe(printed)
})

/** Collects what the example prints. */
const PAGE = `<!doctype html>
<script type="importmap">{ "imports": { "@turnstream/core": "/core/index.js" } }</script>
<script>
  let shown = ''
  console.log = (...words) => (shown += words.join(' ') + '\\n')
  globalThis.example = import('/example.js').then(() => shown)
</script>
`

/** The modules of the package, by their paths on the site. */
function modules(): [string, string][] {
  const dist = join(project.folder, 'node_modules/@turnstream/core/dist')
  const files = filesUnder(dist, dist).filter((file) => file.endsWith('.js'))
  return files.map((file) => [`/core/${file}`, readFileSync(join(dist, file), 'utf8')])
}

/** npm installs the binary for this machine in a package of its own. */
function programOf(scope: string, name: string): string {
  const folder = join(RUNTIMES, 'node_modules', scope)
  const file = filesUnder(folder, folder).find((path) => path.endsWith(`/${name}`))
  if (file === undefined) throw new Error(`${folder} has no ${name} for this machine`)
  return join(folder, file)
}

test.each(RESOLUTIONS)(
  'its types need no package, with module resolution %s',
  (_name, resolution) => {
    expect(project.checkTypes(PROGRAM, resolution)).toBe('')
  },
)

const PROGRAM = `
import * as core from '@turnstream/core'

export async function answerOf(body: ReadableStream<Uint8Array>): Promise<core.OutputItem[]> {
  const reducer = new core.ResponseReducer()
  for await (const event of core.readEvents(body, 'openai-chat')) reducer.apply(event)
  return reducer.response?.output_items ?? []
}

export const item: core.OutputItem = { type: 'message', id: 'a', content: '', origin: 'agent' }
// @ts-expect-error a message has an origin
export const malformed: core.OutputItem = { type: 'message', id: 'a', content: '' }
`

test('the schemas need zod', () => {
  const program = `
    import { decodeStreamEvent, streamEventSchema } from '@turnstream/core/schemas'
    console.log(decodeStreamEvent({}).ok, streamEventSchema.safeParse({}).success)
  `
  expect(() => project.runModule(program)).toThrow("Cannot find package 'zod'")
  project.link(['zod'])
  expect(project.runModule(program)).toBe('false false\n')
})
