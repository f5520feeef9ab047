// Copies the modules of core that a built package imports into its own dist/core, so that it depends on no package.
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'

const OURS = /(['"])@turnstream\/core\/internal\/([\w/-]+)\1/g
const RELATIVE = /(?:from |import\()(['"])(\.\.?\/[^'"]+)\.js\1/g

/**
 * @param {string} core the dist folder of core
 * @param {string} dist the dist folder of the package
 */
export function inlineCore(core, dist) {
  for (const path of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
    if (!/\.(?:js|d\.ts)$/.test(path)) continue
    const file = join(dist, path)
    const text = readFileSync(file, 'utf8')
    const rewritten = text.replaceAll(OURS, (_, quote, name) => {
      copyModule(core, join(dist, 'core'), name)
      const target = relative(dirname(file), join(dist, 'core', `${name}.js`)).replaceAll(sep, '/')
      return `${quote}${target.startsWith('.') ? target : `./${target}`}${quote}`
    })
    if (rewritten !== text) writeFileSync(file, rewritten)
  }
}

/** With everything that it imports. @param {string} from @param {string} to @param {string} name */
function copyModule(from, to, name) {
  if (existsSync(join(to, `${name}.js`))) return
  mkdirSync(dirname(join(to, name)), { recursive: true })
  for (const extension of ['.js', '.d.ts']) {
    copyFileSync(join(from, name + extension), join(to, name + extension))
  }
  const texts = ['.js', '.d.ts'].map((extension) =>
    readFileSync(join(from, name + extension), 'utf8'),
  )
  for (const [, , path = ''] of texts.join('\n').matchAll(RELATIVE)) {
    copyModule(from, to, join(dirname(name), path))
  }
}
