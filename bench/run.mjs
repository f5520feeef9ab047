// node --expose-gc bench/run.mjs [--quick] [--profile] [name…]: runs the benches against dist/, fails if a goal is
// missed. --quick takes few rounds (10 to 60 s per goal of the gateway): to see the effect of a change, not to quote.
// --profile writes a CPU profile of every server process to turnstream-profiles in the temporary directory.
import { cpus } from 'node:os'
import { finish, isQuick } from './measure.mjs'

// Loaded only when it runs: some need packages of this folder (`npm ci --prefix bench`).
/** @type {Record<string, () => Promise<void>>} */
const benches = {
  channel: async () => (await import('./channel.mjs')).benchChannel(),
  processor: async () => (await import('./processor.mjs')).benchProcessor(),
  reducer: async () => (await import('./reducer.mjs')).benchReducer(),
  pipeline: async () => (await import('./pipeline.mjs')).benchPipeline(),
  client: async () => (await import('./client.mjs')).benchClient(),
  growth: async () => (await import('./growth.mjs')).benchGrowth(),
  sse: async () => (await import('./sse.mjs')).benchSse(),
  'log-redis': async () => (await import('./log-redis.mjs')).benchLogRedis(),
  'log-join': async () => (await import('./log-join.mjs')).benchLogJoin(),
  'log-size': async () => (await import('./log-size.mjs')).benchLogSize(),
  'log-fanout': async () => (await import('./log-fanout.mjs')).benchLogFanout(),
  'log-embedded': async () => (await import('./log-embedded.mjs')).benchLogEmbedded(),
  'log-reopen': async () => (await import('./log-reopen.mjs')).benchLogReopen(),
  'gateway-latency': async () => (await import('./gateway-latency.mjs')).benchGatewayLatency(),
  'codex-latency': async () => (await import('./codex-latency.mjs')).benchCodexLatency(),
  'gateway-load': async () => (await import('./gateway-load.mjs')).benchGatewayLoad(),
  'gateway-vendor': async () => (await import('./gateway-load.mjs')).benchGatewayVendor(),
  'gateway-growth': async () => (await import('./gateway-load.mjs')).benchGatewayGrowth(),
  'gateway-answers': async () => (await import('./gateway-answers.mjs')).benchGatewayAnswers(),
  'gateway-idle': async () => (await import('./gateway-idle.mjs')).benchGatewayIdle(),
  'gateway-storm': async () => (await import('./gateway-storm.mjs')).benchGatewayStorm(),
  'gateway-bodies': async () => (await import('./gateway-bodies.mjs')).benchGatewayBodies(),
  'vendor-apis': async () => (await import('./vendor-apis.mjs')).benchVendorApis(),
}

const names = process.argv.slice(2).filter((argument) => !argument.startsWith('--'))
const unknown = names.filter((name) => !(name in benches))

if (unknown.length > 0) {
  console.error(
    `no bench named ${unknown.join(', ')}; there are: ${Object.keys(benches).join(', ')}`,
  )
  process.exitCode = 2
} else {
  const mode = isQuick ? ', quick: few rounds' : ''
  console.log(
    `Node ${process.version}, ${cpus().length} x ${cpus()[0]?.model ?? 'unknown CPU'}${mode}`,
  )
  for (const [name, bench] of Object.entries(benches)) {
    if (names.length === 0 || names.includes(name)) await bench()
  }
  finish()
}
