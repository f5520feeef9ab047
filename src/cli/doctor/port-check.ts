import { once } from 'node:events'
import { createServer } from 'node:net'
import type { Clock } from '../../async/clock.ts'
import { isRecord, parseJsonSafe } from '../../protocol/json.ts'
import { HEADERS, ROUTES } from '../../protocol/names.ts'
import type { Settings } from '../serve/settings.ts'
import { type Check, fail, ok } from './check.ts'
import { look } from './http-look.ts'
import { messageOf } from './words.ts'

const NAME = 'port'

export interface PortLook {
  readonly check: Check
  /** Where a server of ours answers already. */
  readonly runningAt?: string
}

/** Takes the port and lets it go at once, or asks who has it. */
export async function portLook(settings: Settings, clock: Clock): Promise<PortLook> {
  const { host, port } = settings
  const where = `${host}:${port}`
  if (port === 0) return { check: ok(NAME, `a free one on ${host}`) }
  const code = await refusalOf(host, port)
  if (code === undefined) return { check: ok(NAME, `${where} is free`) }
  if (code !== 'EADDRINUSE') return { check: fail(NAME, `${where}: ${code}`, fixOf(code)) }
  const url = `http://${addressOf(host)}:${port}`
  if (await isOurs(url, clock)) {
    return { check: ok(NAME, `a turnstream server answers at ${url}`), runningAt: url }
  }
  return {
    check: fail(
      NAME,
      `${where} is used by another program`,
      `Stop it (which one: ss -ltnp 'sport = :${port}'), or choose another with --port <n>`,
    ),
  }
}

async function refusalOf(host: string, port: number): Promise<string | undefined> {
  const server = createServer()
  try {
    server.listen({ host, port, exclusive: true })
    await once(server, 'listening')
    server.close()
    await once(server, 'close')
    return undefined
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : messageOf(error)
  }
}

function fixOf(code: string): string {
  if (code === 'EACCES') return 'Choose one from 1024 on with --port <n>: those below are for root'
  return 'Choose an address of this machine with --host <address>; which there are: ip addr'
}

/** Where a server that listens everywhere is found from here. */
function addressOf(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

async function isOurs(url: string, clock: Clock): Promise<boolean> {
  const looked = await look({ url: `${url}${ROUTES.health}`, headers: {}, clock })
  if (!('answer' in looked) || looked.answer.status !== 200) return false
  const { headers, body } = looked.answer
  const health = parseJsonSafe(body)
  // Others have such a route, too.
  return isRecord(health) && health['status'] === 'ok' && headers.has(HEADERS.requestId)
}
