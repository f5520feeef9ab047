import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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
  expect(() => installTestClients(brokenPackage())).toThrow(
    /^The packages of test\/clients\/package\.json could not be installed\. Run "npm ci --prefix test\/clients"/,
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
