// Cuts the connection of codex in the middle of an answer. codex sends its request again, and the gateway continues the
// same turn: the provider is called once. Needs no gateway and no key, but codex: npm install -g @openai/codex
//
//     node examples/cut-codex.mjs [--silent] [path of codex]
//
// With --silent the gateway's side of the connection stays open, as when a laptop loses its network.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { connect, createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { createOpenaiResponsesProvider } from 'turnstream'
import { createGateway, listen, MemoryLog } from 'turnstream/server'

const { values, positionals } = parseArgs({
  options: { silent: { type: 'boolean' } },
  allowPositionals: true,
})
const WORDS = ['The ', 'answer ', 'is ', 'complete.']
const counts = { codex: 0, provider: 0 }
let isCut = false

/** The provider: stops after two words until the connection of codex was cut. */
const vendor = createServer(async (request, response) => {
  counts.provider += 1
  await request.resume().toArray()
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const send = (type, fields) => {
    response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`)
  }
  const item = { id: 'msg_1', type: 'message', role: 'assistant', status: 'completed' }
  const content = [{ type: 'output_text', text: WORDS.join(''), annotations: [] }]
  const whole = { id: 'resp_1', object: 'response', created_at: 1, model: 'm' }
  send('response.created', { response: { ...whole, status: 'in_progress', output: [] } })
  send('response.output_item.added', { output_index: 0, item: { ...item, content: [] } })
  for (const [index, delta] of WORDS.entries()) {
    if (index === 2 && !isCut) await once(network, 'cut')
    const place = { item_id: item.id, output_index: 0, content_index: 0 }
    send('response.output_text.delta', { ...place, delta })
  }
  send('response.output_item.done', { output_index: 0, item: { ...item, content } })
  const usage = { input_tokens: 3, output_tokens: 4, total_tokens: 7 }
  const output = [{ ...item, content }]
  send('response.completed', { response: { ...whole, status: 'completed', output, usage } })
  response.end()
})

/** The network: closes the first connection that has carried the second word. */
const network = createTcpServer((client) => {
  const gateway = connect(Number(new URL(listening.url).port), '127.0.0.1')
  client.on('data', (chunk) => {
    if (/^POST \S*\/responses /.test(chunk.toString('latin1'))) counts.codex += 1
    gateway.write(chunk)
  })
  gateway.on('data', (chunk) => {
    client.write(chunk)
    if (isCut || !chunk.includes(WORDS[1])) return
    isCut = true
    if (values.silent) client.off('close', leave)
    client.destroySoon()
    network.emit('cut')
  })
  const leave = () => gateway.destroy()
  client.on('error', () => {}).on('close', leave)
  gateway.on('error', () => {}).on('close', () => client.destroySoon())
})

async function urlOf(server) {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return `http://127.0.0.1:${server.address().port}`
}

const provider = createOpenaiResponsesProvider({
  id: 'vendor',
  apiKey: 'none',
  baseUrl: await urlOf(vendor),
})
const providers = [{ provider, models: ['m'], defaultModel: 'm' }]
const gateway = createGateway({ log: new MemoryLog(), providers })
const listening = await listen(gateway, { port: 0 })
const home = await mkdtemp(join(tmpdir(), 'turnstream-cut-codex-'))

try {
  const config = `
model = "vendor/m"
model_provider = "turnstream"
[model_providers.turnstream]
name = "turnstream"
base_url = "${await urlOf(network)}/v1"
wire_api = "responses"
`
  await writeFile(join(home, 'config.toml'), config)
  const [path] = positionals
  const command = path === undefined ? 'codex' : resolve(path)
  const codex = spawn(command, ['exec', '--skip-git-repo-check', 'Hello'], {
    cwd: home,
    env: { PATH: process.env.PATH, HOME: home, CODEX_HOME: home },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [[code], answer, errors] = await Promise.all([
    once(codex, 'close'),
    codex.stdout.setEncoding('utf8').toArray(),
    codex.stderr.setEncoding('utf8').toArray(),
  ])
  if (code !== 0) throw new Error(errors.join(''))
  console.log(`answer: ${answer.join('').trim()}`)
  console.log(`requests of codex: ${counts.codex}`)
  console.log(`requests to the provider: ${counts.provider}`)
} catch (error) {
  const isMissing = error.code === 'ENOENT' && error.syscall?.startsWith('spawn')
  const advice =
    'codex was not found. Install it with "npm install -g @openai/codex", or pass its path.'
  console.error(isMissing ? advice : error.message)
  process.exitCode = 1
} finally {
  network.close()
  await listening.close()
  vendor.closeAllConnections()
  vendor.close()
  await rm(home, { recursive: true, force: true })
}
