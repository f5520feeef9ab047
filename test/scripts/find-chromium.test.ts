import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findChromium } from '../../scripts/find-chromium.mjs'

const REMEDY = 'run `apt-get install chromium`, or set CHROMIUM_PATH to a chromium.'

/** A folder with a program. */
function folderWith(name: string, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-chromium-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, name)
  writeFileSync(file, `#!/bin/sh\n${text}\n`)
  chmodSync(file, 0o755)
  return folder
}

test.each(['chromium', 'chromium-browser', 'google-chrome'])('%s is found in the path', (name) => {
  const path = folderWith(name, 'echo Chromium 150.0.7871.100 built on Debian')
  const file = join(path, name)
  expect(findChromium({ file: '', path })).toEqual({ file, env: {}, version: '150.0.7871.100' })
})

test('a file that is named comes first', () => {
  const file = join(folderWith('mine', 'echo Chromium 151.0.0.1'), 'mine')
  const path = folderWith('chromium', 'echo Chromium 150.0.0.1')
  expect(findChromium({ file, path })).toEqual({ file, env: {}, version: '151.0.0.1' })
})

test('a browser that does not run is reported with what to do', () => {
  const path = folderWith('chromium', 'echo libnss3.so: not found >&2; exit 127')
  const file = join(path, 'chromium')
  expect(() => findChromium({ file: '', path })).toThrow(
    `There is no Chromium to run with: ${file} does not run (libnss3.so: not found); ${REMEDY}`,
  )
  expect(() => findChromium({ file })).toThrow(
    `There is no Chromium to run with: CHROMIUM_PATH, which is ${file}, does not run (libnss3.so: not found); ${REMEDY}`,
  )
})
