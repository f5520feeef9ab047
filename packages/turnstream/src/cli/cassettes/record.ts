import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { relative, resolve } from 'node:path'
import { failureReason } from '@turnstream/conformance/internal/endpoint/http'
import { BASE_URL_TAKES, isBaseUrl } from '@turnstream/core/internal/formats/vendor-request'
import { jsonLine } from '@turnstream/core/internal/protocol/json'
import { CommandError, defineCommand, EXIT, errorCode, UsageError } from '../command.ts'
import type { Terminal } from '../terminal.ts'
import { CassetteDirectory } from './directory.ts'
import { createRecordProxy, type Recorded } from './record-proxy.ts'

interface Vendor {
  readonly url: string
  readonly hint: (proxy: string) => string
}

const VENDORS: Readonly<Record<string, Vendor>> = {
  openai: { url: 'https://api.openai.com', hint: (proxy) => `OPENAI_BASE_URL=${proxy}/v1` },
  anthropic: { url: 'https://api.anthropic.com', hint: (proxy) => `ANTHROPIC_BASE_URL=${proxy}` },
  gemini: {
    url: 'https://generativelanguage.googleapis.com',
    hint: (proxy) => `httpOptions: { baseUrl: '${proxy}' }`,
  },
}

const NAMES = Object.keys(VENDORS)

export const record = defineCommand({
  name: 'cassette record',
  summary: "record a provider's responses as cassettes",
  usage: ['turnstream cassette record <vendor|url> [--to <directory>] [--port <n>] [--json]'],
  about: `A proxy on this machine. Point a client of the vendor at the printed address: each call to
Responses, Chat Completions, Messages or generateContent becomes a cassette with its timing. Other
requests are passed on. Keys, cookies and other credentials are redacted, prompts and answers not.

The vendor is ${NAMES.join(', ')}, or the base URL of another server.`,
  options: {
    to: { value: 'directory', about: 'where to write', default: 'cassettes' },
    port: { value: 'n', about: 'port to listen on; 0 picks a free one', default: '4020' },
    'max-bytes': { value: 'n', about: 'max. size of a cassette', default: '16777216' },
    'max-total-bytes': {
      value: 'n',
      about: 'max. size of all; the oldest recordings are deleted',
      default: '1073741824',
    },
    json: { about: 'print JSON lines: {"url","target"}, then {"file","vendor","status","ms"}' },
  },
  words: { takes: 'one vendor or URL', min: 1, max: 1, choices: NAMES },
  examples: ['turnstream cassette record openai --port 8080'],
  exitCodes: '0 stopped by a signal · 1 could not start · 2 usage error',
  async run({ values, words: [given = ''] }, terminal) {
    const target = parseTarget(given)
    const port = parseCount('--port', values.port, 0, 65_535)
    const limits = {
      maxFileBytes: parseCount('--max-bytes', values['max-bytes'], 1024),
      maxTotalBytes: parseCount('--max-total-bytes', values['max-total-bytes'], 1024),
    }
    const stopped = new Promise<void>((done) => void terminal.onSignal(done))
    const directory = await openDirectory(resolve(terminal.cwd, values.to), limits, terminal)
    const onRecorded = (recorded: Recorded): void => {
      void terminal.write(values.json ? jsonLine(recorded) : lineOf(recorded, terminal))
    }
    const server = createRecordProxy({ target, directory, clock: terminal.clock, onRecorded })
    const url = await listen(server, port)
    const hint = VENDORS[given]?.hint(url)
    await terminal.write(
      values.json
        ? jsonLine({ url, target: target.href })
        : `turnstream listening on ${url}\n  records    ${target.href} to ${values.to}\n` +
            (hint === undefined ? '' : `  client     ${hint}\n`),
    )
    await stopped
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
    await directory.settled()
    return EXIT.done
  },
})

function parseTarget(given: string): URL {
  const url = VENDORS[given]?.url ?? given
  if (isBaseUrl(url)) return new URL(url)
  throw new UsageError(`cassette record takes ${NAMES.join(', ')} or ${BASE_URL_TAKES}`)
}

function parseCount(option: string, text: string, min: number, max = Number.MAX_SAFE_INTEGER) {
  const count = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (count >= min && count <= max) return count
  const range = max === Number.MAX_SAFE_INTEGER ? `≥ ${min}` : `from ${min} to ${max}`
  throw new UsageError(`${option} must be an integer ${range}; got '${text}'`)
}

function openDirectory(
  directory: string,
  limits: { readonly maxFileBytes: number; readonly maxTotalBytes: number },
  { writeError }: Terminal,
): Promise<CassetteDirectory> {
  const onError = (error: unknown): void =>
    writeError(`turnstream: a cassette was not written: ${failureReason(error)}\n`)
  return CassetteDirectory.open({ directory, ...limits, onError }).catch((error: unknown) => {
    throw new CommandError(undefined, failureReason(error), { cause: error })
  })
}

async function listen(server: Server, port: number): Promise<string> {
  server.listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch (error) {
    const isTaken = errorCode(error) === 'EADDRINUSE'
    const reason = isTaken ? `Port ${port} is already in use. Pass --port.` : failureReason(error)
    throw new CommandError(undefined, reason, { cause: error })
  }
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function lineOf({ file, vendor, status, ms }: Recorded, { cwd }: Terminal): string {
  const outcome = status === 0 ? 'no response' : `${status}`
  return `${relative(cwd, file)}  ${vendor}  ${outcome}  ${(ms / 1000).toFixed(1)} s\n`
}
