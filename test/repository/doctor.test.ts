/** docs/cli.md lists exactly the checks that `turnstream doctor` makes. */

import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openEmbeddedLog } from '../../packages/turnstream/src/log/embedded/open.ts'
import { sha256Of } from '../../packages/turnstream/src/server/auth/key-ring.ts'
import {
  fakeEndpoint,
  KEY,
} from '../../packages/turnstream/test/cli/doctor/endpoint/fake-endpoint.ts'
import { bothReports, folder, PATIENCE } from '../../packages/turnstream/test/cli/doctor/support.ts'
import { startRedis } from '../../scripts/redis-server.mjs'
import { read } from './sources.ts'
import { section, tableRows } from './tables.ts'

const doc = read('docs/cli.md')

function documented(title: string): string[] {
  return tableRows(section(doc, title)).flatMap(([names = '']) =>
    names.split(', ').map((name) => name.replaceAll('`', '')),
  )
}

test('every check of a setup has its row', PATIENCE, async () => {
  const cwd = folder()
  writeFileSync(join(cwd, 'turnstream.keys'), `acme:web:${sha256Of('a')}\n`)
  chmodSync(join(cwd, 'turnstream.keys'), 0o600)
  const redis = await startRedis()
  onTestFinished(async () => {
    await redis.stop()
  })
  const log = await openEmbeddedLog({ directory: join(cwd, 'data') })
  await log.close()
  const args = ['--port', '0', '--keys-file', 'turnstream.keys']
  const embedded = await bothReports({ cwd, args: [...args, '--store', 'data'] })
  const shared = await bothReports({
    cwd,
    args,
    env: { TURNSTREAM_STORE: `redis://127.0.0.1:${redis.port}` },
  })
  const env = { OPENAI_API_KEY: '' }
  writeFileSync(join(cwd, 'codex.json'), JSON.stringify({ codex: { binary: '/nowhere' } }))
  const codex = await bothReports({ cwd, args: [...args, '--config', 'codex.json'], env })
  const reports = [embedded, shared, codex].flatMap(({ report }) => report.checks)
  const names = reports.map(({ name }) => name)
  expect(documented('Checks of a setup').toSorted()).toEqual([...new Set(names)].toSorted())
})

test('every check of an endpoint has its row', PATIENCE, async () => {
  const { url } = await fakeEndpoint()
  const { report } = await bothReports({ args: ['--endpoint', url], env: { OPENAI_API_KEY: KEY } })
  // It is there only when the key went over plain http to another machine.
  const names = [...report.checks.map(({ name }) => name), 'key']
  expect(documented('Checks of an endpoint').toSorted()).toEqual(names.toSorted())
})

test('every verdict is explained', () => {
  const verdicts = /A verdict is (.*?)\. /s.exec(section(doc, 'doctor'))?.[1] ?? ''
  expect(verdicts.match(/`\w+`/g)).toEqual(['`ok`', '`warn`', '`fail`', '`skipped`'])
})
