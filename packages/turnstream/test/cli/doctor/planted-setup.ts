import { once } from 'node:events'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { sha256Of } from '../../../src/server/auth/key-ring.ts'
import { openEmbeddedLog } from '../../../src/server.ts'
import { freePort } from '../support.ts'
import { lockedStore, type Planted, SECRET } from './planted.ts'
import { folder, type Setup, vendorThat, writeConfig } from './support.ts'

function keysFile(text: string, mode = 0o600): Setup {
  const cwd = folder()
  const path = join(cwd, 'turnstream.keys')
  writeFileSync(path, text)
  chmodSync(path, mode)
  return { cwd, args: ['--keys-file', 'turnstream.keys'] }
}

const KEY_LINE = `acme:web:${sha256Of('a')}\n`

async function takenPort(): Promise<Setup> {
  const server = createServer((socket) => socket.end('SSH-2.0-OpenSSH\r\n').resume()).listen(
    0,
    '127.0.0.1',
  )
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
  })
  return { args: ['--port', String((server.address() as AddressInfo).port)] }
}

async function newerStore(): Promise<Setup> {
  const cwd = folder()
  const directory = join(cwd, 'data')
  const log = await openEmbeddedLog({ directory })
  await log.close()
  chmodSync(directory, 0o700)
  const { open } = await import('lmdb')
  const root = open({ path: join(directory, 'turns.mdb'), noSubdir: true, encoding: 'string' })
  await root.openDB({ name: 'store', encoding: 'string' }).put('format', '99')
  await root.close()
  return { cwd, args: ['--store', 'data'] }
}

/** Of the settings, the store, the port and the keys. */
export const PLANTED_SETUP: readonly Planted[] = [
  {
    fault: 'an unknown key in the file',
    plant: () => {
      const cwd = folder()
      writeConfig(cwd, { prot: 4011 })
      return { cwd }
    },
    check: 'configuration',
    verdict: 'fail',
    found: /unknown key prot; did you mean port\?/,
    fix: /turnstream config print/,
  },
  {
    fault: 'an unknown variable',
    plant: () => ({ env: { TURNSTREAM_LEESE: '3s' } }),
    check: 'configuration',
    verdict: 'fail',
    found: /unknown TURNSTREAM_LEESE; did you mean TURNSTREAM_LEASE\?/,
    fix: /turnstream config print/,
  },
  {
    fault: 'a file that is not JSON',
    plant: () => {
      const cwd = folder()
      writeFileSync(join(cwd, 'turnstream.config.json'), `{"store": "${SECRET}`)
      return { cwd }
    },
    check: 'configuration',
    verdict: 'fail',
    found: /turnstream\.config\.json: /,
    fix: /turnstream config print/,
  },
  {
    fault: 'a password that is not URL-encoded',
    plant: () => ({ env: { TURNSTREAM_STORE: `redis://:50%of-${SECRET}@127.0.0.1:1` } }),
    check: 'configuration',
    verdict: 'fail',
    found: /password in the store URL contains an invalid % escape: write % as %25/,
    fix: /turnstream config print/,
  },
  {
    fault: 'a store that another process uses',
    plant: lockedStore,
    check: 'store',
    verdict: 'fail',
    found: /data is used by process \d+ \(node child\.mjs hold\)/,
    fix: /Stop it \(kill \d+\), or choose another directory with --store/,
  },
  {
    fault: 'a store of a newer version',
    plant: newerStore,
    check: 'store',
    verdict: 'fail',
    found: /has format 99.*format 2/,
    fix: /npm install -g turnstream@latest/,
  },
  {
    fault: 'a file that is not a store',
    plant: () => {
      const cwd = folder()
      mkdirSync(join(cwd, 'data'), { mode: 0o700 })
      writeFileSync(join(cwd, 'data', 'turns.mdb'), 'x'.repeat(10_000))
      return { cwd, args: ['--store', 'data'] }
    },
    check: 'store',
    verdict: 'fail',
    found: /turns\.mdb is not a turnstream store/,
    fix: /Restore a backup/,
  },
  {
    fault: 'a file in place of the directory',
    plant: () => {
      const cwd = folder()
      writeFileSync(join(cwd, 'data'), '')
      return { cwd, args: ['--store', 'data'] }
    },
    check: 'store',
    verdict: 'fail',
    found: /data is not a directory/,
    fix: /--store/,
  },
  {
    fault: 'a file as parent of the directory',
    plant: () => {
      const cwd = folder()
      writeFileSync(join(cwd, 'file'), '')
      return { cwd, args: ['--store', 'file/data'] }
    },
    check: 'store',
    verdict: 'fail',
    found: /file is not a directory/,
    fix: /--store/,
  },
  {
    fault: 'a parent in which no user can create a directory',
    plant: () => ({ args: ['--store', process.platform === 'linux' ? '/proc/x' : '/dev/null/x'] }),
    check: 'store',
    verdict: 'fail',
    found: /cannot create a file in \/proc|null is not a directory/,
    fix: /--store/,
  },
  {
    fault: 'a world-readable directory',
    plant: () => {
      const cwd = folder()
      mkdirSync(join(cwd, 'data'))
      chmodSync(join(cwd, 'data'), 0o755)
      return { cwd, args: ['--store', 'data'] }
    },
    check: 'store',
    verdict: 'warn',
    found: /accessible to every user of this machine/,
    fix: /chmod 700 .*data/,
  },
  {
    fault: 'a store in memory',
    plant: () => ({}),
    check: 'store',
    verdict: 'warn',
    found: /lost when the process ends/,
    fix: /--store/,
  },
  {
    fault: 'a port that another program uses',
    plant: takenPort,
    check: 'port',
    verdict: 'fail',
    found: /127\.0\.0\.1:\d+ is used by another program/,
    fix: /ss -ltnp 'sport = :\d+'.*--port/,
  },
  {
    fault: 'a port that another healthy HTTP server uses',
    plant: async () => {
      const { url } = await vendorThat((response) => response.end('{"status":"ok"}'))
      return { args: ['--port', new URL(url).port] }
    },
    check: 'port',
    verdict: 'fail',
    found: /is used by another program/,
    fix: /--port/,
  },
  {
    fault: 'a non-local address',
    plant: async () => ({
      args: [
        '--host',
        '192.0.2.1',
        '--port',
        String(await freePort()),
        '--allow-public-without-keys',
      ],
    }),
    check: 'port',
    verdict: 'fail',
    found: /192\.0\.2\.1:\d+: EADDRNOTAVAIL/,
    fix: /--host/,
  },
  {
    fault: 'a public address without keys',
    plant: () => ({ args: ['--host', '0.0.0.0'] }),
    check: 'exposure',
    verdict: 'fail',
    found: /0\.0\.0\.0 is reachable from other machines/,
    fix: /turnstream keys add <tenant> --file turnstream\.keys/,
  },
  {
    fault: 'a public address without keys, allowed',
    plant: () => ({ args: ['--host', '0.0.0.0', '--allow-public-without-keys'] }),
    check: 'exposure',
    verdict: 'warn',
    found: /without a key, as configured/,
    fix: /turnstream keys add/,
  },
  {
    fault: 'a missing keys file',
    plant: () => ({ args: ['--keys-file', 'turnstream.keys'] }),
    check: 'keys',
    verdict: 'fail',
    found: /no such file/,
    fix: /turnstream keys add <tenant> --file .*turnstream\.keys/,
  },
  {
    fault: 'an invalid keys file',
    plant: () => keysFile(`${KEY_LINE}acme:cli:${SECRET}\n`),
    check: 'keys',
    verdict: 'fail',
    found: /line 2 does not end with 64 hexadecimal digits/,
    fix: /turnstream keys list --file/,
  },
  {
    fault: 'an empty keys file',
    plant: () => keysFile('# none yet\n'),
    check: 'keys',
    verdict: 'fail',
    found: /no keys in/,
    fix: /turnstream keys add <tenant>/,
  },
  {
    fault: 'a world-readable keys file',
    plant: () => keysFile(KEY_LINE, 0o644),
    check: 'keys',
    verdict: 'warn',
    found: /a key in .*readable by other users/,
    fix: /chmod 600 .*turnstream\.keys/,
  },
  {
    fault: 'a world-writable keys file',
    plant: () => keysFile(KEY_LINE, 0o666),
    check: 'keys',
    verdict: 'fail',
    found: /writable by other users/,
    fix: /chmod 600 .*turnstream\.keys/,
  },
]
