import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const readme = readFileSync('README.md', 'utf8')

test('the snippet of the README prints what the README says', () => {
  const [, code = '', after = ''] = /```js\n(.*?)```\n\n(.*)/s.exec(readme) ?? []
  const expected = after.slice(0, after.indexOf('\n\n')).replaceAll(/^ {4}/gm, '')
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
    encoding: 'utf8',
  })
  expect(stderr).toBe('')
  expect(stdout.replaceAll(/ +$/gm, '').trimEnd()).toBe(expected)
})

test('its two commands are scripts of the package', () => {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as {
    scripts: Record<string, string>
  }
  expect(readme).toContain('npm ci && npm start')
  expect(readme).toContain('npm ci && npm test')
  expect(Object.keys(scripts)).toEqual(expect.arrayContaining(['start', 'test', 'bench', 'check']))
})
