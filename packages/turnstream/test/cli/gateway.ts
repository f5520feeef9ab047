import { onTestFinished } from 'vitest'
import type { Recordings } from '../../../core/src/index.ts'
import { DEMO_MODELS, demoRecordings } from '../../src/cli/demo/recordings.ts'
import { createScriptedProvider } from '../../src/index.ts'
import {
  createGateway,
  type KeyRing,
  listen,
  MemoryLog,
  Providers,
  type Tool,
} from '../../src/server.ts'

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
