/** A deployment as docs/security.md describes it: its commands, its environment, two instances, one Redis. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { startRedis } from '../../../../scripts/redis-server.mjs'
import { read } from '../../../../test/repository/sources.ts'
import { section } from '../../../../test/repository/tables.ts'
import { type Process, turnstream } from '../cli/process.ts'
import { replaceAll } from './recipes.ts'

const MAIN = new URL('../../dist/cli/main.js', import.meta.url).pathname
const FOLDER = '/etc/turnstream'

interface Instance {
  readonly url: string
  readonly process: Process
}

export interface Deployment {
  readonly instances: readonly [Instance, Instance]
  /** The one that the commands have made. */
  readonly key: string
  /** Where the files are that the document has in /etc/turnstream. */
  readonly folder: string
}

/** Everything ends with the test. */
export async function deploy(): Promise<Deployment> {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const base = mkdtempSync(join(tmpdir(), 'turnstream-deployment-'))
  onTestFinished(() => rmSync(base, { recursive: true, force: true }))
  const folder = join(base, 'etc')
  const key = runCommands(folder, redis.url)
  const env = environment(folder)
  const start = async (): Promise<Instance> => {
    const process = turnstream(['serve', '--port', '0'], { cwd: base, env })
    const [, url = ''] = await process.printed(/^turnstream listening on (\S+)\n/)
    return { url, process }
  }
  return { instances: [await start(), await start()], key, folder }
}

function block(language: string): string {
  const text = section(read('docs/security.md'), 'Keys and secrets')
  return new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'ms').exec(text)?.[1] ?? ''
}

/** The key that is printed. */
function runCommands(folder: string, redisUrl: string): string {
  const commands = replaceAll(block('sh'), [
    ['npx turnstream', `'${process.execPath}' '${MAIN}'`],
    ['redis://:password@redis.internal:6379', redisUrl],
  ]).replaceAll(FOLDER, folder)
  const { status, stdout, stderr } = spawnSync('sh', ['-e'], { input: commands, encoding: 'utf8' })
  if (status !== 0) throw new Error(stderr)
  return stdout.trim()
}

function environment(folder: string): Record<string, string> {
  const lines = block('ini').replaceAll(FOLDER, folder).trim().split('\n')
  return Object.fromEntries(lines.map((line) => line.split('=') as [string, string]))
}
