import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { EVERYTHING } from '../../clients/everything.ts'
import { bothReports, folder, PATIENCE } from './support.ts'

async function checksOf(tools: unknown, env: Record<string, string> = {}, module = '') {
  const cwd = folder()
  writeFileSync(join(cwd, 'tools.mjs'), module)
  writeFileSync(join(cwd, 'turnstream.config.json'), JSON.stringify({ tools }))
  const { report } = await bothReports({ cwd, env })
  return report.checks
    .filter(({ name }) => name === 'tools')
    .map(({ verdict, found }) => [verdict, found.replaceAll(`${cwd}/`, '')])
}

const http = { url: 'https://weather.example/v1?key=1', headers: { 'x-key': '${WEATHER_KEY}' } }

test('tools that can be used are ok', PATIENCE, async () => {
  const tools = [
    { name: 'weather', http },
    { module: './tools.mjs' },
    { name: 'everything', mcp: { command: process.execPath, args: [EVERYTHING] } },
  ]
  const module = `export default [{ name: 'add', parameters: {}, execute() {} }]`
  expect(await checksOf(tools, { WEATHER_KEY: 'some-secret' }, module)).toEqual([
    ['ok', 'weather: https://weather.example, not called'],
    ['ok', 'tools.mjs: add'],
    ['ok', 'MCP server everything: 13 tools'],
  ])
})

test.each([
  [[], 'ok', /^none configured$/],
  [
    [{ name: 'weather', http }],
    'fail',
    /^tools.0.http.headers.x-key: the variable WEATHER_KEY is not set$/,
  ],
  [[{ module: './tools.mjs' }], 'fail', /^tools.mjs: .*default export must be a list of tools/],
  [[{ module: './missing.mjs' }], 'fail', /^missing.mjs: Cannot find module/],
  [
    [{ name: 'down', mcp: { command: '/no/such/command' } }],
    'warn',
    /^MCP server down: cannot connect: spawn .* ENOENT$/,
  ],
  [
    [{ name: 'down', mcp: { url: 'http://127.0.0.1:9/mcp' } }],
    'warn',
    /^MCP server down: cannot connect: /,
  ],
])('%j is %s', PATIENCE, async (tools, verdict, found) => {
  expect(await checksOf(tools)).toEqual([[verdict, expect.stringMatching(found)]])
})
