// A local MCP server with as many tools as its argument says. Each sends notifications of `bytes` in all, then a result of
// `outputBytes`.
import { createInterface } from 'node:readline'

const NOTIFICATION = { method: 'notifications/message', params: { level: 'info', data: '' } }
const COUNT = Number(process.argv[2] ?? 1)
const LINE = `${JSON.stringify({ jsonrpc: '2.0', ...NOTIFICATION })}\n`

/** @type {Record<string, (params: any) => object>} */
const answers = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'flooding', version: '1' },
  }),
  'tools/list': () => ({
    tools: Array.from({ length: COUNT }, (_, at) => ({
      name: `flood${at}`,
      inputSchema: { type: 'object' },
    })),
  }),
  'tools/call': ({ arguments: { bytes = 0, outputBytes = 4 } }) => {
    process.stdout.write(LINE.repeat(bytes / LINE.length))
    return { content: [{ type: 'text', text: 'x'.repeat(outputBytes) }] }
  },
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  const answer = answers[method]
  if (answer === undefined) return
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result: answer(params) })}\n`)
})
