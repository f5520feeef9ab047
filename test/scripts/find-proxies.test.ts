import { execFile } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { findCaddy, findNginx } from '../../scripts/find-proxies.mjs'

const script = new URL('../../scripts/find-proxies.mjs', import.meta.url).href

// Programs are started here, on a machine that may have much else to do, and one may be fetched.
const TIMEOUT = 60_000

const PROXIES = [
  {
    title: 'nginx',
    program: 'nginx',
    find: findNginx,
    finder: 'findNginx',
    variable: 'NGINX_PATH',
    // nginx tells its version on standard error.
    says: 'echo "nginx version: nginx/1.2.3" >&2',
  },
  {
    title: 'Caddy',
    program: 'caddy',
    find: findCaddy,
    finder: 'findCaddy',
    variable: 'CADDY_PATH',
    says: 'echo "v1.2.3 h1:abc="',
  },
]

let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-find-'))
})

afterEach(() => {
  rmSync(folder, { recursive: true, force: true })
})

function writeProgram(name: string, text: string): string {
  const file = join(folder, 'bin', name)
  mkdirSync(join(folder, 'bin'), { recursive: true })
  writeFileSync(file, `#!/bin/sh\n${text}\n`)
  chmodSync(file, 0o755)
  return file
}

/** What is found, or the message of what is thrown, in a process with this environment. */
async function findInChild(finder: string, env: Record<string, string>): Promise<unknown> {
  const where = JSON.stringify({ path: '', cache: join(folder, 'cache') })
  const program = `
    import { ${finder} } from ${JSON.stringify(script)}
    let result
    try { result = ${finder}(${where}) } catch (error) { result = error.message }
    console.log(JSON.stringify(result))`
  const args = ['--input-type=module', '--eval', program]
  const { stdout } = await promisify(execFile)(process.execPath, args, { env })
  return JSON.parse(stdout)
}

describe.each(PROXIES)('$title', { timeout: TIMEOUT }, (proxy) => {
  const { title, program, find, finder, variable, says } = proxy
  const remedy = `run \`apt-get install ${program}\` or \`brew install ${program}\`, or set ${variable} to a ${program}.`

  test('is found on this machine with its version', () => {
    const { file, version } = find()
    expect(existsSync(file)).toBe(true)
    expect(version).toMatch(/^\d+\.\d+/)
  })

  test('is the first one in PATH', () => {
    const file = writeProgram(program, says)
    expect(find({ file: '', path: join(folder, 'bin') })).toEqual({
      file,
      env: {},
      version: '1.2.3',
    })
  })

  test('is taken from the environment first', async () => {
    const file = writeProgram(program, says)
    expect(await findInChild(finder, { [variable]: file })).toMatchObject({ file })
  })

  test('reports in one sentence what to do when it is missing', async () => {
    expect(await findInChild(finder, { PATH: '' })).toBe(
      `There is no ${title} to run with: no ${program} is in PATH, /usr/bin, /usr/sbin, /usr/local/bin, ` +
        `/opt/homebrew/bin, and there are no apt-get and dpkg-deb to unpack one; ${remedy}`,
    )
  })

  test.each([
    ['fails', 'echo "cannot open shared object" >&2; exit 127', 'cannot open shared object'],
    ['fails silently', 'exit 3', 'it exits with 3'],
    ['is another program', 'echo hello', 'names no version'],
  ])('is refused in one sentence if it %s', (_, text, why) => {
    const file = writeProgram(program, text)
    const ask = () => find({ file: '', path: join(folder, 'bin') })
    expect(ask).toThrow(`There is no ${title} to run with: ${file} does not run (`)
    expect(ask).toThrow(why)
    expect(ask).toThrow(remedy)
  })

  test('is unpacked where packages are available', async () => {
    writeProgram('apt-get', `PATH=/usr/bin:/bin; echo "$*" >> ${folder}/calls; : > ${program}.deb`)
    writeProgram(
      'dpkg-deb',
      `PATH=/usr/bin:/bin
      for place in usr/bin usr/sbin; do
        mkdir -p "$3/$place"
        printf '#!/bin/sh\\n%s\\n' '${says}' > "$3/$place/${program}"
        chmod +x "$3/$place/${program}"
      done`,
    )
    const found = await findInChild(finder, { PATH: join(folder, 'bin') })
    expect(found).toMatchObject({ version: '1.2.3', env: {} })
    expect(await findInChild(finder, { PATH: '' })).toEqual(found)
  })
})
