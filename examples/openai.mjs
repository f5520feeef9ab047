// The OpenAI SDK (npm install openai) with a gateway: lists the models, streams an answer, prints the id of a turn.
//
//     node examples/openai.mjs 'What is turnstream?'
import OpenAI from 'openai'

const gateway = process.env.TURNSTREAM_URL ?? 'http://127.0.0.1:4010'
const openai = new OpenAI({
  baseURL: `${gateway}/v1`,
  apiKey: process.env.TURNSTREAM_KEY ?? 'none',
})
const content = process.argv[2] ?? 'What is turnstream?'

const { data: models } = await openai.models.list()
console.log(`models: ${models.map(({ id }) => id).join(', ')}\n`)

// Any model of the list, from any provider: `<provider>/<model>`.
const stream = openai.chat.completions.stream({
  model: models[0]?.id ?? 'scripted/answer',
  messages: [{ role: 'user', content }],
  stream_options: { include_usage: true },
})
stream.on('content', (piece) => process.stdout.write(piece))
const usage = await stream.totalUsage()
console.log(`\n\n${usage.total_tokens} tokens`)

// Every request is a stored turn, which you can read again: npx turnstream tail <turn>
const { response } = await openai.chat.completions
  .create({ model: 'scripted/thinking', messages: [{ role: 'user', content }] })
  .withResponse()
console.log(`turn ${response.headers.get('x-turn-id')} is stored`)
