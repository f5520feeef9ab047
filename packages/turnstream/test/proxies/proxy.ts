/** A proxy that runs a recipe: the real program, in a folder of its own, as the user who runs the tests. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { findCaddy, findNginx } from '../../../../scripts/find-proxies.mjs'
import { type Certificate, selfSigned } from './certificate.ts'
import { HOST, type ProxyName, placed, recipe } from './recipes.ts'

export interface Proxy {
  readonly port: number
  readonly certificate: string
  /** Everything that it has logged so far, in files and on standard error. */
  logged(): string
}

export interface ProxyOptions {
  /** The addresses of the instances. */
  readonly upstreams: readonly string[]
  /** Changes the recipe before it is used. */
  readonly change?: (recipe: string) => string
}

interface Program {
  readonly file: string
  readonly env: Record<string, string>
  readonly args: readonly string[]
  readonly checkArgs: readonly string[]
  /** What it says when its port is open. */
  readonly greeting: string
}

// Below the ports that the kernel hands out, and above those of scripts/redis-server.mjs.
const FIRST_PORT = 22_000
const PORTS = 10_000
const PORT_ATTEMPTS = 20

// Runs the program until it ends, or until nothing holds our end of the pipe any more: a proxy does not
// outlive the tests, however these end.
const GUARD = `
exec 3<&0
"$@" 3<&- & program=$!
{ read -r _ <&3; kill "$program"; } 2>/dev/null & guard=$!
wait "$program"
kill "$guard"`

let certificate: Certificate | undefined

/** Starts a proxy and waits until its port is open; it ends with the test. */
export async function startProxy(name: ProxyName, options: ProxyOptions): Promise<Proxy> {
  // Only the proxy itself can tell whether a port is free without a race against others.
  for (let attempt = 1; ; attempt += 1) {
    const port = FIRST_PORT + Math.floor(Math.random() * PORTS)
    try {
      return await start(name, port, options)
    } catch (error) {
      const isTaken = error instanceof Error && /address already in use/i.test(error.message)
      if (!isTaken || attempt === PORT_ATTEMPTS) throw error
    }
  }
}

/** What the program says of a recipe without running it, and its exit code. */
export function checkRecipe(name: ProxyName, change?: ProxyOptions['change']) {
  const options = { upstreams: ['127.0.0.1:4010', '127.0.0.1:4011'], ...(change && { change }) }
  const { file, env, checkArgs } = prepare(name, FIRST_PORT, options).program
  const { status, stdout, stderr } = spawnSync(file, checkArgs, {
    encoding: 'utf8',
    env: { ...process.env, ...env },
  })
  return { status, output: `${stdout}${stderr}` }
}

async function start(name: ProxyName, port: number, options: ProxyOptions): Promise<Proxy> {
  const { folder, program } = prepare(name, port, options)
  const { file, args } = program
  const env = { ...process.env, ...program.env }
  const child = spawn('/bin/sh', ['-c', GUARD, 'sh', file, ...args], {
    env,
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  const closed = once(child, 'close')
  onTestFinished(async () => {
    child.stdin.destroy()
    await closed
  })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  let isOver = false
  void closed.then(() => {
    isOver = true
  })
  while (!said.includes(program.greeting)) {
    if (isOver) throw new Error(`${name} did not start; it said:\n${said}`)
    await Promise.race([once(child.stderr, 'data'), closed])
  }
  return {
    port,
    certificate: (certificate as Certificate).certificate,
    logged: () =>
      `${said}${textOf(join(folder, 'access.log'))}${textOf(join(folder, 'error.log'))}`,
  }
}

function textOf(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8') : ''
}

/** Writes everything that the program reads into a folder that goes with the test. */
function prepare(
  name: ProxyName,
  port: number,
  { upstreams, change = (text) => text }: ProxyOptions,
) {
  const folder = mkdtempSync(join(tmpdir(), `turnstream-${name}-`))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  certificate ??= selfSigned(HOST)
  writeFileSync(join(folder, 'certificate.pem'), certificate.certificate)
  writeFileSync(join(folder, 'key.pem'), certificate.key, { mode: 0o600 })
  const hosts = upstreams.map((address) => address.replace(/^http:\/\//, ''))
  const text = placed(name, change(recipe(name)), { folder, port, upstreams: hosts })
  writeFileSync(join(folder, 'recipe.conf'), text)
  return { folder, program: name === 'nginx' ? nginx(folder) : caddy(folder) }
}

/**
 * The recipe is included as a distribution's nginx.conf does it, with the settings that Debian's has and
 * a recipe must undo.
 */
function nginx(folder: string): Program {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const main = join(folder, 'nginx.conf')
  writeFileSync(
    main,
    [
      'daemon off;',
      // Its processes for requests give up what only root may do; the folder is root's then.
      ...(process.getuid?.() === 0 ? ['user root;'] : []),
      `pid ${join(folder, 'pid')};`,
      'worker_processes 1;',
      'error_log stderr notice;',
      'events { worker_connections 768; }',
      'http {',
      'gzip on; gzip_types text/event-stream application/json; gzip_min_length 1; gzip_proxied any;',
      `access_log ${join(folder, 'access.log')};`,
      ...temporary.map((each) => `${each}_temp_path ${join(folder, each)};`),
      `include ${join(folder, 'recipe.conf')};`,
      '}',
    ].join('\n'),
  )
  const args = ['-p', folder, '-c', main, '-e', 'stderr']
  const greeting = 'start worker process '
  return { ...findNginx(), args, checkArgs: [...args, '-t'], greeting }
}

function caddy(folder: string): Program {
  const { file, env } = findCaddy()
  const config = ['--config', join(folder, 'recipe.conf'), '--adapter', 'caddyfile']
  return {
    file,
    env: { ...env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
    args: ['run', ...config],
    checkArgs: ['validate', ...config],
    greeting: 'serving initial configuration',
  }
}
