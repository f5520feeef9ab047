import { onTestFinished } from 'vitest'
import type { Recordings } from '../../../core/src/formats/v2/recording.ts'
import { DEMO_MODELS, demoRecordings } from '../../src/cli/demo/recordings.ts'
import { MemoryLog } from '../../src/log/memory-log.ts'
import { createScriptedProvider } from '../../src/providers/scripted/provider.ts'
import type { KeyRing } from '../../src/server/auth/key-ring.ts'
import { createGateway } from '../../src/server/gateway.ts'
import { listen } from '../../src/server/listen.ts'
import { Providers } from '../../src/turns/providers.ts'
import type { Tool } from '../../src/turns/tools.ts'

export interface GatewayUnderTest {
  /** 1 is the pace of the recordings; they are played without waiting unless given. */
  speed?: number
  recordings?: Recordings
  /** Tools that the gateway runs. */
  tools?: readonly Tool[]
  /** The API keys; none by default. */
  keys?: KeyRing
}

/** A real gateway on a free port, for as long as the test runs. */
export async function startGateway(options: GatewayUnderTest = {}) {
  const { speed = Infinity, recordings, keys, tools = [] } = options
  const played = { ...demoRecordings, ...recordings }
  const provider = createScriptedProvider({ recordings: played, speed })
  const models = [...DEMO_MODELS, ...Object.keys(recordings ?? {})]
  const log = new MemoryLog()
  const gateway = createGateway({
    log,
    tools,
    providers: new Providers([{ provider, models, defaultModel: 'answer' }]),
    instance: 'test',
    shutdownGraceMs: 1,
    ...(keys !== undefined && { keys }),
  })
  const listening = await listen(gateway, { port: 0 })
  onTestFinished(async () => {
    await listening.close()
    await log.close()
  })
  return { url: listening.url, log, gateway }
}
