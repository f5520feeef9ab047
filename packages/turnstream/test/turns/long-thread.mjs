// Submits turns with large inputs to one thread, as the package is built. Writes a JSON line for each turn.
//
//     node long-thread.mjs <directory> <number of turns> <characters of each input>
import { writeSync } from 'node:fs'

const built = new URL('../../dist/', import.meta.url)
/** @type {typeof import('../../src/index.ts')} */
const { ResponseStream } = await import(new URL('index.js', built).href)
/** @type {typeof import('../../src/server.ts')} */
const { openEmbeddedLog, Providers, TurnRunner } = await import(new URL('server.js', built).href)

const [directory = '', turns = '', chars = ''] = process.argv.slice(2)

/** Ends at once, and reports how much it was sent. */
const provider = {
  id: 'echo',
  /** @type {import('../../src/providers/provider.ts').Provider['stream']} */
  stream(request, { runId, turnId, threadId }) {
    const sent = request.input.reduce((sum, item) => sum + JSON.stringify(item).length, 0)
    writeSync(1, `${JSON.stringify({ turnId, threadId, items: request.input.length, sent })}\n`)
    return ResponseStream.fromEvents([
      { type: 'response_done', response_id: runId, status: 'complete' },
    ])
  },
}

const log = await openEmbeddedLog({ directory, sync: 'system' })
const runner = new TurnRunner({
  log,
  instance: 'long-thread',
  providers: new Providers([{ provider, models: ['m'], defaultModel: 'm' }]),
})
await runner.start()
for (let turn = 0; turn < Number(turns); turn++) {
  const content = `${turn} `.padEnd(Number(chars), 'x')
  await runner.submit({
    threadId: 'thread',
    input: [{ type: 'message', origin: 'user', content }],
  })
  while (runner.running > 0) await new Promise((resolve) => setTimeout(resolve, 1))
}
await runner.shutdown(0)
await log.close()
