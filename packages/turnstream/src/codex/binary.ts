import { accessSync, constants, existsSync, readdirSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { delimiter, dirname, join } from 'node:path'
import { optionInvalid } from '@turnstream/core/internal/protocol/errors'

/** Finds the native binary, not the Node program around it: `wanted`, that of `@openai/codex`, or of the `PATH`. */
export function findCodex(wanted: string | undefined, path = process.env['PATH'] ?? ''): string {
  if (wanted !== undefined) {
    if (isExecutable(wanted)) return vendoredBeside(wanted) ?? wanted
    throw optionInvalid(`codex binary ${wanted} is not executable`)
  }
  const installed = installedPackage()
  const vendored = installed && vendoredIn(installed)
  if (vendored !== undefined) return vendored
  const found = path
    .split(delimiter)
    .map((directory) => join(directory, 'codex'))
    .find(isExecutable)
  if (found !== undefined) return vendoredBeside(found) ?? found
  throw optionInvalid(
    'no codex binary: install it with "npm install -g @openai/codex", or set its path',
  )
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

function installedPackage(): string | undefined {
  try {
    return dirname(createRequire(import.meta.url).resolve('@openai/codex/package.json'))
  } catch {
    return undefined
  }
}

/** The command of the npm package links to `@openai/codex/bin/codex.js`. */
function vendoredBeside(command: string): string | undefined {
  const program = realpathSync(command)
  return program.endsWith('.js') ? vendoredIn(join(dirname(program), '..')) : undefined
}

/** The package for this platform lies beside the main one or below it. */
function vendoredIn(root: string): string | undefined {
  const name = `codex-${process.platform}-${process.arch}`
  const places = [join(root, '..', name), join(root, 'node_modules', '@openai', name)]
  const vendors = places.map((place) => join(place, 'vendor')).filter((place) => existsSync(place))
  return vendors
    .flatMap((vendor) => readdirSync(vendor).map((triple) => join(vendor, triple, 'bin', 'codex')))
    .find(isExecutable)
}
