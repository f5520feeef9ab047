// node --expose-gc bench/run.mjs [name…]: runs the benches against dist/, fails if a goal is missed.
import { cpus } from 'node:os'
import { benchChannel } from './channel.mjs'
import { benchChatCompletions } from './chat-completions.mjs'
import { benchGatewayIdle } from './gateway-idle.mjs'
import { benchGatewayLatency } from './gateway-latency.mjs'
import { benchGatewayLoad } from './gateway-load.mjs'
import { benchGatewayStorm } from './gateway-storm.mjs'
import { benchLogEmbedded } from './log-embedded.mjs'
import { benchLogFanout } from './log-fanout.mjs'
import { benchLogJoin } from './log-join.mjs'
import { benchLogRedis } from './log-redis.mjs'
import { benchLogReopen } from './log-reopen.mjs'
import { benchLogSize } from './log-size.mjs'
import { finish } from './measure.mjs'
import { benchPipeline } from './pipeline.mjs'
import { benchProcessor } from './processor.mjs'
import { benchReducer } from './reducer.mjs'
import { benchSse } from './sse.mjs'

/** @type {[name: string, bench: () => Promise<void>][]} */
const benches = [
  ['channel', benchChannel],
  ['processor', benchProcessor],
  ['reducer', benchReducer],
  ['pipeline', benchPipeline],
  ['sse', benchSse],
  ['log-redis', benchLogRedis],
  ['log-join', benchLogJoin],
  ['log-size', benchLogSize],
  ['log-fanout', benchLogFanout],
  ['log-embedded', benchLogEmbedded],
  ['log-reopen', benchLogReopen],
  ['gateway-latency', benchGatewayLatency],
  ['gateway-load', benchGatewayLoad],
  ['gateway-idle', benchGatewayIdle],
  ['gateway-storm', benchGatewayStorm],
  ['chat-completions', benchChatCompletions],
]

const wanted = process.argv.slice(2)
const known = benches.map(([name]) => name)
const unknown = wanted.filter((name) => !known.includes(name))

if (unknown.length > 0) {
  console.error(`no bench named ${unknown.join(', ')}; there are: ${known.join(', ')}`)
  process.exitCode = 2
} else {
  console.log(`Node ${process.version}, ${cpus().length} x ${cpus()[0]?.model ?? 'unknown CPU'}`)
  for (const [name, bench] of benches) {
    if (wanted.length === 0 || wanted.includes(name)) await bench()
  }
  finish()
}
