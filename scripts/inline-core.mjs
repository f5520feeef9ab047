// Copies the modules of core that a built package imports into its own dist/core, so that it depends on no package.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'

const OURS = /(['"])@turnstream\/core\/internal\/([\w/-]+)\1/g
/** Declarations keep the `.ts` of the source. */
const RELATIVE = /(?:from |import\()(['"])(\.\.?\/[^'"]+)\.[jt]s\1/g
/** The source maps of core name files that the package does not have. */
const MAP_LINK = /^\/\/# sourceMappingURL=.*\n?/m

/**
 * @param {string} core the dist folder of core
 * @param {string} dist the dist folder of the package
 */
export function inlineCore(core, dist) {
  for (const path of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
    const [extension] = /\.d\.ts$|\.js$/.exec(path) ?? []
    if (extension === undefined) continue
    const file = join(dist, path)
    const text = readFileSync(file, 'utf8')
    const rewritten = text.replaceAll(OURS, (_, quote, name) => {
      copyModule(core, join(dist, 'core'), name, extension)
      const target = relative(dirname(file), join(dist, 'core', `${name}.js`)).replaceAll(sep, '/')
      return `${quote}${target.startsWith('.') ? target : `./${target}`}${quote}`
    })
    if (rewritten !== text) writeFileSync(file, rewritten)
  }
}

/**
 * Copies the code or the types of a module, with those that it imports.
 * @param {string} from @param {string} to @param {string} name @param {string} extension
 */
function copyModule(from, to, name, extension) {
  const target = join(to, name + extension)
  if (existsSync(target)) return
  const text = readFileSync(join(from, name + extension), 'utf8')
  mkdirSync(dirname(target), { recursive: true })
  writeFileSync(target, text.replace(MAP_LINK, ''))
  for (const [, , path = ''] of text.matchAll(RELATIVE)) {
    copyModule(from, to, join(dirname(name), path), extension)
  }
}
