/**
 * `@turnstream/client` alone.
 *
 * @module-tag slow
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { turnstream } from '../../packages/turnstream/test/cli/process.ts'
import { bundle, bundleWithEsbuild } from './bundle.ts'
import { exampleIn, folderOf, Project, RESOLUTIONS } from './packed.ts'

const project = new Project()
const modules = join(project.folder, 'node_modules')
const dist = join(modules, '@turnstream/client/dist')

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

beforeAll(() => {
  const { tarball } = project.pack('client')
  project.run('npm', ['install', '--offline', '--no-audit', '--no-fund', tarball])
})
afterAll(() => project.remove())

test('installs nothing else', () => {
  expect(readdirSync(modules)).toEqual(['.package-lock.json', '@turnstream'])
  expect(readdirSync(join(modules, '@turnstream'))).toEqual(['client'])
})

test('its example follows a turn of a gateway', async () => {
  const args = ['serve', '--port', '0', '--store', 'memory', '--scripted-speed', '0']
  const server = turnstream(args, { cwd: project.folder })
  const [, url = ''] = await server.printed(/listening on (\S+)\n/)
  const { code } = exampleIn('client')
  expect(project.runModule(code.replace('http://127.0.0.1:4010', url))).toMatch(
    /^complete \*\*This is a recorded answer/m,
  )
})

describe('the types', () => {
  test.each(RESOLUTIONS)('need no package, with module resolution %s', (_name, resolution) => {
    expect(project.checkTypes(PROGRAM, resolution)).toBe('')
  })
})

describe.each([
  ['Vite', bundle],
  ['esbuild', bundleWithEsbuild],
])('minified by %s', (_name, bundled) => {
  test.each(['index', 'share', 'react'])(
    '%s is as long as bundled from the sources',
    async (entry) => {
      const lengthIn = async (file: string) =>
        (await bundled(`export * from '${file}'`, entry === 'react' ? ['react'] : [])).length
      const packed = await lengthIn(join(dist, `${entry}.js`))
      expect(packed).toBe(await lengthIn(join(folderOf('client'), 'src', `${entry}.ts`)))
    },
  )
})

const PROGRAM = `
import * as client from '@turnstream/client'
import { shareConnections } from '@turnstream/client/share'
import { useThread } from '@turnstream/client/react'

export const shared: client.Client = client.createClient({ share: shareConnections() })

export async function answer(prompt: string): Promise<string> {
  const { turn }: client.TurnState = await shared.submit({ prompt }).done()
  const texts = (turn?.items ?? []).map((item: client.ItemSnapshot) => {
    if (item.type === 'tool_call') return JSON.stringify(item.toolArguments)
    return item.content
  })
  return texts.join(' ')
}

export function useTexts(threadId: string): string[] {
  const { turns } = useThread(shared, threadId)
  return turns.flatMap(({ items }) => items.map(({ content }) => content))
}

export function show(outputs: readonly client.StreamOutput[], frame: client.AppendFrame): number {
  const view: client.View = outputs.reduce(client.apply, client.EMPTY_VIEW)
  return (client.append(view, frame) ?? view).turns.length
}

// @ts-expect-error a prompt is a text
shared.submit({ prompt: 1 })
`
