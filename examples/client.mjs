// Submits a prompt and prints the answer as it grows. Lost connections are resumed.
//   node examples/client.mjs 'What is turnstream?'
import { createClient } from 'turnstream/client'

const client = createClient({
  baseUrl: process.env.TURNSTREAM_URL ?? 'http://127.0.0.1:4010',
  token: process.env.TURNSTREAM_KEY,
})

const turn = client.submit({ prompt: process.argv[2] ?? 'What is turnstream?' })
// Ctrl-C stops the turn. Otherwise it would continue after the program exits.
process.once('SIGINT', () => client.cancel(turn.turnId))

let shown = ''
for await (const { turn: view, connection } of turn) {
  if (connection.status === 'reconnecting') console.error(connection.cause?.message)
  const answers = view.items.filter((item) => item.type === 'message' && item.origin === 'agent')
  const text = answers.map((item) => item.content).join('\n')
  process.stdout.write(text.slice(shown.length))
  shown = text
}
process.stdout.write('\n')
