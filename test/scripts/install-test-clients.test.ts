import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { installTestClients } from '../../scripts/install-test-clients.mjs'

/** A package whose lock does not know its dependency: npm refuses it without asking anybody. */
function brokenPackage(): string {
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-clients-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const dependencies = { 'turnstream-has-no-such-package': '1.0.0' }
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'broken', dependencies }))
  writeFileSync(join(folder, 'package-lock.json'), '{"lockfileVersion":3,"packages":{}}')
  return folder
}

test('packages that cannot be installed are reported with the command to run', () => {
  const folder = brokenPackage()
  const name = relative(fileURLToPath(new URL('../..', import.meta.url)), folder)
  expect(() => installTestClients(folder)).toThrow(
    `The packages of ${name}/package.json could not be installed. Run "npm ci --prefix ${name}"`,
  )
})

test('an installation that matches the lock file is left alone', () => {
  const folder = brokenPackage()
  mkdirSync(join(folder, 'node_modules'))
  writeFileSync(
    join(folder, 'node_modules/.installed-lock.json'),
    '{"lockfileVersion":3,"packages":{}}',
  )
  expect(() => installTestClients(folder)).not.toThrow()
})

test('the lock of a process that is gone does not block an installation', () => {
  const folder = brokenPackage()
  const { pid } = spawnSync('true')
  writeFileSync(join(folder, 'node_modules.lock'), `${pid}`)
  expect(() => installTestClients(folder)).toThrow('could not be installed')
  expect(existsSync(join(folder, 'node_modules.lock'))).toBe(false)
})
