// @module-tag slow
/** The React examples compile in a strict project, against the real packages. */
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { root } from '../../../../../test/repository/sources.ts'

test('the examples satisfy a strict project', { timeout: 60_000 }, () => {
  const folder = mkdtempSync(join(root, 'packages/turnstream/test/clients/node_modules/.types-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const files = readdirSync(join(root, 'examples')).filter((name) => name.endsWith('.tsx'))
  expect(files).toEqual(['ai-sdk.tsx', 'assistant-ui.tsx', 'react.tsx'])
  for (const name of files) copyFileSync(join(root, 'examples', name), join(folder, name))
  const compilerOptions = {
    ...{ module: 'esnext', moduleResolution: 'bundler', jsx: 'react-jsx' },
    typeRoots: [join(root, 'node_modules/@types')],
  }
  const config = { extends: join(root, 'tsconfig.json'), compilerOptions, include: [], files }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  let output = ''
  try {
    output = execFileSync(process.execPath, [tsc, '-p', folder], {
      encoding: 'utf8',
      stdio: 'pipe',
    })
  } catch (error) {
    output = (error as { stdout: string }).stdout
  }
  expect(output).toBe('')
})
