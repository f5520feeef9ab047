import { existsSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { describe, expect, test } from 'vitest'
import { documents, PACKAGES, read, root } from './sources.ts'

describe.each(documents())('%s', (document) => {
  const text = read(document)

  test('links only to files and headings that exist', () => {
    expect(linksOf(text).filter((link) => !resolves(document, link))).toEqual([])
  })

  test('names only paths that exist', () => {
    expect(pathsIn(text).filter((path) => !isPlace(path))).toEqual([])
  })

  test('names only npm scripts that exist', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
    const named = [...text.matchAll(/npm run ([\w:-]+)/g)].map(([, name = '']) => name)
    expect(named.filter((name) => !(name in scripts))).toEqual([])
  })
})

function linksOf(text: string): string[] {
  const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link)
  return links.filter((link) => !/^[a-z]+:/.test(link))
}

function resolves(document: string, link: string): boolean {
  const [path = '', anchor] = link.split('#')
  const target = path === '' ? document : normalize(join(dirname(document), path))
  if (!existsSync(join(root, target))) return false
  return anchor === undefined || headingsOf(read(target)).includes(anchor)
}

/** The anchors that GitHub gives to the headings of a text. */
function headingsOf(text: string): string[] {
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\w\s-]/g, '')
      .replaceAll(/\s/g, '-'),
  )
}

const FOLDERS = '(?:\\.ci|bench|docs|scripts|packages|test)/[^`\\s]*'
const SOURCES = `(?:${PACKAGES.join('|')})/[^\`\\s]*\\.ts`

/** What stands in backquotes and begins like a path, if it has no placeholder. */
function pathsIn(text: string): string[] {
  const quoted = [...text.matchAll(new RegExp(`\`(${FOLDERS}|${SOURCES})\``, 'g'))]
  return quoted.map(([, path = '']) => path).filter((path) => !/[<>*…]/.test(path))
}

/** A path of the repository, or of a package's sources. */
function isPlace(path: string): boolean {
  const [name, ...rest] = path.split('/')
  return [path, `packages/${name}/src/${rest.join('/')}`].some((each) =>
    existsSync(join(root, each)),
  )
}
