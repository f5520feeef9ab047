import { createRequire } from 'node:module'

const folders = {
  newest: new URL('../package.json', import.meta.url),
  18: new URL('../react-18/package.json', import.meta.url),
}

/** Loads a package of packages/turnstream/test/clients/, which is installed with the first test. */
export function load(name: string, from: keyof typeof folders = 'newest'): unknown {
  return createRequire(folders[from])(name)
}
