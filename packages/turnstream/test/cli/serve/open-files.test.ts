import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { untilTrue } from '../support.ts'

const MAIN = new URL('../../../dist/cli/main.js', import.meta.url).pathname
const FILES = 160
const CONNECTIONS = FILES - 100

test('connections beyond the open file limit are refused, logged and counted', {
  timeout: 30_000,
}, async () => {
  const serve = [MAIN, 'serve', '--port', '0', '--store', 'memory']
  const child = spawn('sh', [
    '-c',
    `ulimit -n ${FILES}; exec "$0" "$@"`,
    process.execPath,
    ...serve,
  ])
  const sockets: Socket[] = []
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy()
    child.kill('SIGKILL')
    await once(child, 'close')
  })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  await untilTrue(() => /listening on \S+\n/.test(stdout))
  const url = /listening on (\S+)\n/.exec(stdout)?.[1] ?? ''
  const port = Number(new URL(url).port)

  const open = async () => {
    const socket = connect(port, '127.0.0.1')
    sockets.push(socket)
    socket.on('error', () => {})
    await once(socket, 'connect')
    return socket
  }
  const answers: string[] = []
  for (let each = 0; each < CONNECTIONS; each++) {
    const socket = await open()
    socket.write('GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n')
    await once(socket, 'data')
  }
  for (let each = 0; each < 5; each++) {
    const socket = await open()
    const [answer] = (await once(socket, 'data')) as [Buffer]
    answers.push(answer.toString().slice(0, 12))
  }
  expect(new Set(answers)).toEqual(new Set(['HTTP/1.1 503']))
  await untilTrue(() => stderr.includes('refused'))
  expect(stderr).toContain(`${CONNECTIONS} are open, and the open file limit allows no more`)

  const last = sockets[0]
  last?.write('GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n')
  let metrics = ''
  last?.on('data', (chunk: Buffer) => (metrics += chunk.toString()))
  await untilTrue(() => metrics.includes('CONNECTIONS_LIMITED'))
  expect(metrics).toContain('{code="CONNECTIONS_LIMITED"} 5')
})
