/** The files for containers and systemd: what they say is checked, and run where that takes no engine. */
import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readConfiguration } from '../../packages/turnstream/src/cli/serve/configuration.ts'
import { parseDuration, SETTINGS } from '../../packages/turnstream/src/cli/serve/settings.ts'
import { type Process, turnstream } from '../../packages/turnstream/test/cli/process.ts'
import { freePort } from '../../packages/turnstream/test/cli/support.ts'
import { recipe, replaceAll } from '../../packages/turnstream/test/proxies/recipes.ts'
import { redisCommand, startRedis } from '../../scripts/redis-server.mjs'
import { read, root } from './sources.ts'
import { section } from './tables.ts'

const TIMEOUT = 60_000
const MAIN = join(root, 'packages/turnstream/dist/cli/main.js')
const COMPOSE_COMMANDS = section(
  read('docs/deployment.md'),
  'Run several instances with Docker Compose',
)
const GRACE_S = (parseDuration(SETTINGS.shutdownGrace.standard) ?? 0) / 1000

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-deploy-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

describe('the variables', () => {
  const files = ['Dockerfile', 'compose.yaml', 'docs/deployment.md', 'deploy/turnstream.service']
  const known = (name: string) => () =>
    readConfiguration({ flags: {}, env: { [name]: '' }, cwd: tmpdir() })

  test.each(files)('of %s are all known', (file) => {
    const names = read(file).match(/TURNSTREAM_\w+/g) ?? []
    expect(names.length).toBeGreaterThan(0)
    for (const name of names) expect(known(name)).not.toThrow()
  })

  test('an unknown one would be noticed', () => {
    expect(known('TURNSTREAM_KEY_FILES')).toThrow('unknown TURNSTREAM_KEY_FILES')
  })
})

/** The instructions of the Dockerfile, each on one line. */
const INSTRUCTIONS = read('Dockerfile')
  .replaceAll(/^#.*\n/gm, '')
  .replaceAll(/\\\n\s*/g, '')
  .split('\n')
  .filter((line) => line !== '')
const valuesOf = (name: string, lines = INSTRUCTIONS) =>
  lines.flatMap((line) => (line.startsWith(`${name} `) ? line.slice(name.length + 1) : []))
const FINAL = INSTRUCTIONS.slice(INSTRUCTIONS.findLastIndex((line) => line.startsWith('FROM ')))

/** The paths that it copies from the repository. */
const COPIED = valuesOf('COPY')
  .filter((value) => !value.startsWith('--from'))
  .flatMap((value) => value.split(' ').slice(0, -1))

/** Links packages into a folder as npm installs them: ours from its workspaces, the others from the repository. */
function linkPackages(folder: string, names: readonly string[]): void {
  rmSync(join(folder, 'node_modules'), { recursive: true, force: true })
  mkdirSync(join(folder, 'node_modules/@turnstream'), { recursive: true })
  for (const name of ['core', 'client', 'conformance']) {
    symlinkSync(`../../packages/${name}`, join(folder, 'node_modules/@turnstream', name))
  }
  for (const name of names) {
    const link = join(folder, 'node_modules', name)
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(join(root, 'node_modules', name), link)
  }
}

interface Manifest {
  name: string
  version: string
  dependencies?: Record<string, string>
}

describe('the Dockerfile', () => {
  test('copies existing files that .dockerignore does not exclude', () => {
    const allowed = read('.dockerignore').match(/^!(.+)$/gm) ?? []
    expect(COPIED).toContain('packages')
    for (const path of COPIED) expect(existsSync(join(root, path)), path).toBe(true)
    expect(COPIED.toSorted()).toEqual(allowed.map((line) => line.slice(1)).toSorted())
  })

  test('builds from what it copies, and its command runs without sources', {
    timeout: 3 * TIMEOUT,
    tags: ['slow'],
  }, () => {
    const folder = temporaryFolder()
    const isIgnored = (path: string) => /^packages\/[^/]+\/(dist|test)$|node_modules$/.test(path)
    for (const path of COPIED) {
      const filter = (source: string) => !isIgnored(relative(root, source))
      cpSync(join(root, path), join(folder, path), { recursive: true, filter })
    }
    const ours = /^(@turnstream|turnstream|\..*)$/
    const installed = readdirSync(join(root, 'node_modules')).filter((name) => !ours.test(name))
    linkPackages(folder, installed)
    const built = spawnSync(process.execPath, ['scripts/build.mjs'], {
      cwd: folder,
      encoding: 'utf8',
    })
    expect(built).toMatchObject({ status: 0, stderr: '' })

    const manifests = readdirSync(join(folder, 'packages')).map((name) => {
      rmSync(join(folder, 'packages', name, 'src'), { recursive: true })
      return JSON.parse(read(`packages/${name}/package.json`)) as Manifest
    })
    const used = manifests.flatMap(({ dependencies = {} }) => Object.keys(dependencies))
    linkPackages(
      folder,
      [...new Set(used)].filter((name) => !name.startsWith('@turnstream/')),
    )
    const [program, main = ''] = JSON.parse(valuesOf('ENTRYPOINT')[0] ?? '') as string[]
    expect(program).toBe('node')
    const args = [main.replace('/app', folder), '--version']
    const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' })
    expect(stdout.trim()).toBe(manifests.find(({ name }) => name === 'turnstream')?.version)
  })

  test('ends with production dependencies and the build, as an unprivileged user', () => {
    expect(valuesOf('RUN').at(-2)).toContain('npm ci --omit=dev --ignore-scripts')
    expect(valuesOf('COPY', FINAL)).toEqual([
      '--from=build /app/node_modules ./node_modules',
      '--from=build /app/packages ./packages',
    ])
    expect(valuesOf('USER', FINAL)).toEqual(['node'])
    expect(FINAL.findIndex((line) => line.startsWith('USER '))).toBeLessThan(
      FINAL.findIndex((line) => line.startsWith('ENTRYPOINT ')),
    )
    expect(valuesOf('VOLUME', FINAL)).toEqual([valuesOf('WORKDIR', FINAL).at(-1)])
    expect(valuesOf('STOPSIGNAL', FINAL)).toEqual(['SIGTERM'])
    expect(valuesOf('EXPOSE', FINAL)).toEqual([SETTINGS.port.standard])
  })

  test('has the same supported Node in both stages, and no secrets', () => {
    const [build, final] = valuesOf('FROM').map((value) => value.split(' ')[0])
    expect(final).toBe(build)
    expect(Number(/^node:(\d+)-slim$/.exec(final ?? '')?.[1])).toBeGreaterThanOrEqual(20)
    expect(valuesOf('ARG')).toEqual([])
    for (const value of valuesOf('ENV')) expect(value).not.toMatch(/KEY|SECRET|TOKEN|PASSWORD/)
  })

  test('its health check detects a missing gateway', { timeout: TIMEOUT }, async () => {
    const [check = ''] = valuesOf('HEALTHCHECK')
    const [program = '', ...args] = JSON.parse(check.slice(check.indexOf('['))) as string[]
    expect(program).toBe('node')
    const ask = (port: string) => {
      const asked = args.map((arg) => arg.replace(`:${SETTINGS.port.standard}/`, `:${port}/`))
      return spawnSync(process.execPath, asked).status
    }
    const server = turnstream(['serve', '--port', '0', '--store', 'memory'], { cwd: tmpdir() })
    const [, port = ''] = await server.printed(/listening on \S+:(\d+)\n/)
    expect(ask(port)).toBe(0)
    expect(ask(`${await freePort()}`)).toBe(1)
  })
})

interface Service {
  image: string
  command?: string[]
  environment?: Record<string, string>
  restart?: string
  volumes?: string[]
  secrets?: string[]
  networks: string[]
  depends_on?: Record<string, { condition: string }>
  healthcheck?: { test: string[] }
  stop_grace_period?: string
}

interface Compose {
  services: Record<string, Service>
  networks: Record<string, { internal?: boolean } | null>
  volumes: Record<string, null>
  secrets: Record<string, { file: string }>
}

// The parser that knip reads its own files with: one of ours would be a dependency for one file.
const { parse } = createRequire(createRequire(import.meta.url).resolve('knip'))('yaml') as {
  parse: (text: string) => unknown
}
const COMPOSE = parse(read('compose.yaml')) as Compose
const serviceOf = (name: string): Service => {
  const service = COMPOSE.services[name]
  if (service === undefined) throw new Error(`compose.yaml has no ${name}`)
  return service
}

describe('compose.yaml', () => {
  test('has two identical gateways, a Redis and a proxy', () => {
    expect(Object.keys(COMPOSE.services)).toEqual(['gateway-1', 'gateway-2', 'redis', 'proxy'])
    expect(serviceOf('gateway-2')).toEqual(serviceOf('gateway-1'))
    for (const { restart } of Object.values(COMPOSE.services))
      expect(restart).toBe('unless-stopped')
  })

  test('only references networks, volumes, secrets and services that it defines', () => {
    for (const service of Object.values(COMPOSE.services)) {
      for (const name of service.networks) expect(COMPOSE.networks).toHaveProperty(name)
      for (const name of service.secrets ?? []) expect(COMPOSE.secrets).toHaveProperty(name)
      for (const [name, { condition }] of Object.entries(service.depends_on ?? {})) {
        expect(COMPOSE.services).toHaveProperty(name)
        expect(condition).toBe('service_healthy')
      }
      for (const volume of service.volumes ?? []) {
        const [source = ''] = volume.split(':')
        if (!source.startsWith('.')) expect(COMPOSE.volumes).toHaveProperty(source)
      }
    }
  })

  test('isolates Redis with the gateways and waits longer than the grace period', () => {
    expect(serviceOf('redis').networks).toEqual(['back'])
    expect(COMPOSE.networks['back']).toEqual({ internal: true })
    expect(serviceOf('proxy').networks).not.toContain('back')
    const grace = Number.parseInt(serviceOf('gateway-1').stop_grace_period ?? '', 10)
    expect(grace).toBeGreaterThan(GRACE_S)
  })

  test('has its secrets where the document creates them, ignored by git', () => {
    for (const { file } of Object.values(COMPOSE.secrets)) {
      expect(COMPOSE_COMMANDS).toContain(`> ${file.replace('./', '')}\n`)
    }
    expect(read('.gitignore')).toContain('deploy/secrets/\n')
  })

  test('uses the recipe of docs/security.md for its proxy, except addresses', () => {
    expect(read('deploy/Caddyfile')).toBe(
      replaceAll(recipe('caddy'), [
        [
          '# /etc/caddy/Caddyfile, for Caddy 2.6 and newer.',
          '# The configuration of docs/security.md for the instances of compose.yaml.',
        ],
        ['127.0.0.1:4010 127.0.0.1:4011', 'gateway-1:4010 gateway-2:4010'],
      ]),
    )
  })
})

/** The commands of the document that make keys and secrets, run in a folder. */
function makeSecrets(folder: string): string {
  const block = /^```sh\n(.*?)^```/ms.exec(COMPOSE_COMMANDS)?.[1]
  const script = (block ?? '')
    .replaceAll(/^(sudo|docker) .*\n/gm, '')
    .replace('npx turnstream', `'${process.execPath}' '${MAIN}'`)
  const { status, stdout } = spawnSync('sh', ['-ec', script], { cwd: folder, encoding: 'utf8' })
  expect(status).toBe(0)
  return stdout.trim()
}

test('the gateways of compose.yaml run with their settings', {
  timeout: TIMEOUT,
  tags: ['slow'],
}, async () => {
  const { command = [] } = serviceOf('redis')
  const redis = await startRedis({ args: command.slice(1) })
  onTestFinished(() => redis.stop())
  const settings = { appendonly: 'yes', appendfsync: 'always', 'maxmemory-policy': 'noeviction' }
  for (const [name, value] of Object.entries(settings)) {
    expect(JSON.stringify(await redisCommand(redis, 'CONFIG', 'GET', name))).toContain(value)
  }

  const folder = temporaryFolder()
  const key = makeSecrets(folder)
  const { environment = {}, volumes = [] } = serviceOf('gateway-1')
  const [source = '', target = ''] = volumes[0]?.split(':') ?? []
  const env = Object.fromEntries(
    Object.entries(environment).map(([name, value]) => [
      name,
      value
        .replace('redis://redis:6379', redis.url)
        .replace(target, join(folder, source))
        .replace('/run/secrets', join(folder, 'deploy', 'secrets')),
    ]),
  )
  const start = async (): Promise<[string, Process]> => {
    const args = ['serve', '--host', '0.0.0.0', '--port', '0', '--scripted-speed', '0']
    const gateway = turnstream(args, { cwd: folder, env })
    const [, port = ''] = await gateway.printed(/listening on \S+:(\d+)\n/)
    return [`http://127.0.0.1:${port}`, gateway]
  }
  const [[first, one], [second, two]] = [await start(), await start()]
  // No warning: the secrets are theirs alone, and the same for both.
  for (const { stderr } of [one, two])
    expect(stderr()).toMatch(/^\S+ 1 key of 1 tenant is in force\n$/)

  // By curl, since fetch does not let a program choose the host that it asks for.
  const ask = (url: string, ...more: string[]) => {
    const host = environment['TURNSTREAM_ALLOWED_HOSTS'] ?? ''
    const args = ['-s', '--max-time', '20', '-H', `host: ${host}`, ...more, url]
    return spawnSync('curl', args, { encoding: 'utf8' }).stdout
  }
  const post = (path: string, body: object) => {
    const headers = ['-H', `authorization: Bearer ${key}`, '-H', 'content-type: application/json']
    return ask(`${first}${path}`, ...headers, '-d', JSON.stringify(body))
  }
  expect(post('/api/v2/submit', { turnId: 'turn', prompt: 'Hello' })).toContain('"runId":"turn"')
  const { token } = JSON.parse(post('/api/v2/stream-tokens', { turnId: 'turn' })) as {
    token: string
  }
  // A token of the first opens the stream at the second.
  expect(ask(`${second}/xapi/turns/turn/stream?token=${token}`)).toContain('turn_complete')
  expect(ask(`${second}/xapi/turns/turn/stream`)).toContain('KEY_REQUIRED')
})

describe('the systemd unit', () => {
  const unit = read('deploy/turnstream.service')
  const settingsOf = (name: string) =>
    [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value = '']) => value)
  /** With programs that this machine has. */
  const here = unit.replace(/^ExecStart=\S+ \S+/m, `ExecStart=${process.execPath} ${MAIN}`)

  function analyze(text: string, ...args: string[]) {
    const file = join(temporaryFolder(), 'turnstream.service')
    writeFileSync(file, text)
    return spawnSync('systemd-analyze', [...args, file], { encoding: 'utf8' })
  }
  const hasSystemd = spawnSync('systemd-analyze', ['--version']).error === undefined

  test.runIf(hasSystemd)('passes systemd-analyze verify without warnings', () => {
    expect(analyze(here, 'verify')).toMatchObject({ status: 0, stderr: '' })
    const misspelt = here.replace('ProtectClock', 'ProtectClok')
    expect(analyze(misspelt, 'verify').stderr).toContain('ProtectClok')
  })

  test.runIf(hasSystemd)('has a low exposure score', () => {
    const { stdout } = analyze(here, 'security', '--offline=true')
    const [, exposure] = /Overall exposure level for \S+: ([\d.]+)/.exec(stdout) ?? []
    expect(Number(exposure)).toBeLessThan(2)
  })

  test("starts the package's command and waits longer than the grace period", () => {
    const { bin } = JSON.parse(read('packages/turnstream/package.json')) as {
      bin: { turnstream: string }
    }
    expect(settingsOf('ExecStart')[0]).toContain(`node_modules/turnstream/${bin.turnstream} serve`)
    expect(settingsOf('ExecReload')).toEqual(['kill -HUP $MAINPID'])
    expect(Number(settingsOf('TimeoutStopSec')[0])).toBeGreaterThan(GRACE_S)
    expect(Number(settingsOf('LimitNOFILE')[0])).toBeGreaterThan(
      Number(SETTINGS.maxConnections.standard),
    )
  })

  test('reads each secret as a credential and stores turns in its state directory', () => {
    const credentials = settingsOf('#?LoadCredential').map((value) => value.split(':')[0] ?? '')
    const read = settingsOf('#?Environment').flatMap((value) => /%d\/(.+)$/.exec(value)?.[1] ?? [])
    expect(read).toEqual(credentials)
    expect(settingsOf('Environment')).toContain(
      `TURNSTREAM_STORE=%S/${settingsOf('StateDirectory')[0]}`,
    )
  })
})

test('every file of deploy/ is in the table of the document', () => {
  const files = readdirSync(join(root, 'deploy')).filter((name) => name !== 'secrets')
  for (const name of files) expect(read('docs/deployment.md')).toContain(`(../deploy/${name})`)
})
