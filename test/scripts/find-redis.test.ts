import { execFile } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { findRedis } from '../../scripts/redis-server.mjs'

const script = new URL('../../scripts/redis-server.mjs', import.meta.url).href
const REMEDY =
  'run `apt-get install redis-server` or `brew install redis`, or set REDIS_SERVER_PATH to a redis-server.'

// Programs are started here, on a machine that may have much else to do, and one may be fetched.
const TIMEOUT = 60_000

let folder: string
let cache: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-find-'))
  cache = join(folder, 'cache')
})

afterEach(() => {
  rmSync(folder, { recursive: true, force: true })
})

/** What findRedis returns, or the message of what it throws, in a process with this environment. */
async function findInChild(env: Record<string, string>): Promise<unknown> {
  const program = `
    import { findRedis } from ${JSON.stringify(script)}
    const find = () => findRedis(${JSON.stringify({ path: '', cache })})
    let result
    try { result = find() } catch (error) { result = error.message }
    console.log(JSON.stringify(result))`
  const args = ['--input-type=module', '--eval', program]
  const { stdout } = await promisify(execFile)(process.execPath, args, { env })
  return JSON.parse(stdout)
}

function writeProgram(name: string, text: string): string {
  const bin = join(folder, 'bin')
  mkdirSync(bin, { recursive: true })
  const file = join(bin, name)
  writeFileSync(file, `#!/bin/sh\nPATH=/usr/bin:/bin\n${text}\n`)
  chmodSync(file, 0o755)
  return bin
}

/**
 * An apt-get that writes down how it was called and makes empty packages, and a dpkg-deb that
 * unpacks a redis-server from each.
 */
function fakePackages({ apt = ':', version = 'Redis server v=9.8.7 sha=0' } = {}): string {
  const packages = 'for name in redis-server redis-tools; do : > "$name.deb"; done'
  writeProgram('apt-get', `echo "$*" >> ${folder}/calls; ${apt}; ${packages}`)
  return writeProgram(
    'dpkg-deb',
    `mkdir -p "$3/usr/bin" "$3/usr/lib/machine"
    printf '#!/bin/sh\\necho "${version}"\\n' > "$3/usr/bin/redis-server.new"
    chmod +x "$3/usr/bin/redis-server.new"
    mv "$3/usr/bin/redis-server.new" "$3/usr/bin/redis-server"`,
  )
}

describe('findRedis', { timeout: TIMEOUT }, () => {
  test('finds a Redis on this machine with its version', () => {
    const { server, version } = findRedis()
    expect(existsSync(server)).toBe(true)
    expect(version).toMatch(/^\d+\.\d+\.\d+$/)
  })

  test('reports in one sentence what was tried and what to do when there is none', async () => {
    expect(await findInChild({ PATH: '' })).toBe(
      'There is no Redis to run with: no redis-server is in PATH, /usr/bin, /usr/sbin, ' +
        '/usr/local/bin, /opt/homebrew/bin, and there are no apt-get and dpkg-deb to unpack one; ' +
        REMEDY,
    )
    expect(existsSync(cache)).toBe(false)
  })

  test('names the program of REDIS_SERVER_PATH if it does not run', async () => {
    const serverPath = join(folder, 'redis-server')
    const message = await findInChild({ REDIS_SERVER_PATH: serverPath })
    expect(message).toContain(`REDIS_SERVER_PATH, which is ${serverPath}, does not run`)
    expect(message).toContain(REMEDY)
  })

  test('prefers REDIS_SERVER_PATH', async () => {
    const bin = writeProgram('redis-server', 'echo "Redis server v=1.2.3 sha=0"')
    const server = join(bin, 'redis-server')
    const redis = await findInChild({ REDIS_SERVER_PATH: server, PATH: process.env['PATH'] ?? '' })
    expect(redis).toEqual({ server, env: {}, version: '1.2.3' })
  })

  test('uses the first redis-server in PATH and the redis-cli beside it', () => {
    const bin = writeProgram('redis-server', 'echo "Redis server v=1.2.3 sha=0"')
    writeProgram('redis-cli', '')
    const path = [join(folder, 'nowhere'), '', bin, '/usr/bin'].join(delimiter)
    const found = findRedis({ serverPath: '', path })
    expect(found).toEqual({
      server: join(bin, 'redis-server'),
      cli: join(bin, 'redis-cli'),
      env: {},
      version: '1.2.3',
    })
  })
})

describe('an unpacked copy', { timeout: TIMEOUT }, () => {
  const isDebian = existsSync('/usr/bin/apt-get') && existsSync('/usr/bin/dpkg-deb')

  test('runs where packages are available, and is refused in one sentence elsewhere', () => {
    const find = () => findRedis({ serverPath: '', path: '' })
    if (isDebian) {
      const { server, env, version } = find()
      expect(server).toContain(join('node_modules', '.cache', 'turnstream', 'redis'))
      expect(env).toHaveProperty('LD_LIBRARY_PATH')
      expect(version).toMatch(/^\d+\.\d+\.\d+$/)
    } else {
      expect(find).toThrow(REMEDY)
    }
  })

  test('is created once and then reused', async () => {
    const env = { PATH: fakePackages() }
    const first = await findInChild(env)
    expect(first).toMatchObject({ version: '9.8.7' })
    expect(first).toHaveProperty('env.LD_LIBRARY_PATH', expect.stringMatching(/lib\/machine$/))
    expect(await findInChild({ PATH: '' })).toEqual(first)
  })

  test('is one complete copy when several processes create it at once', async () => {
    const env = { PATH: fakePackages() }
    const found = await Promise.all(Array.from({ length: 4 }, () => findInChild(env)))
    expect(found[0]).toMatchObject({ version: '9.8.7' })
    expect(new Set(found.map((redis) => JSON.stringify(redis))).size).toBe(1)
    expect(readdirSync(cache)).toHaveLength(1)
  })

  test('uses its own package lists if the system lists fail', async () => {
    const apt = `case "$*" in *Dir::State::lists=${cache}/*) ;; *) echo "E: old" >&2; exit 100 ;; esac`
    const redis = await findInChild({ PATH: fakePackages({ apt }) })
    expect(redis).toMatchObject({ version: '9.8.7' })
    expect(readdirSync(cache)).toHaveLength(1)
  })

  test.each([
    ['no package can be had', { apt: 'echo "E: no net" >&2; exit 100' }, 'E: no net'],
    ['the copy does not run', { version: 'nothing' }, 'names no version'],
  ])('is not left behind if %s', async (_, fake, why) => {
    const message = await findInChild({ PATH: fakePackages(fake) })
    expect(message).toContain('There is no Redis to run with: ')
    expect(message).toContain(why)
    expect(message).toContain(REMEDY)
    expect(readdirSync(cache)).toEqual([])
  })
})
