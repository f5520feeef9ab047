/** A gateway whose model can do what the doctor asks for. */
import type { Recordings } from '../../../../src/adapters/scripted/wire.ts'
import { systemClock } from '../../../../src/async/clock.ts'
import { type Api, type Endpoint, PROMPTS } from '../../../../src/cli/doctor/endpoint/exchange.ts'
import { Script } from '../../../../src/cli/recordings.ts'
import { KeyRing, sha256Of } from '../../../../src/server/auth/key-ring.ts'
import { startGateway } from '../../gateway.ts'

export const KEY = 'planted-gateway-key-0123456789'
export const MODEL = 'scripted/capable'

const ONE_TO_TEN = 'one two three four five six seven eight nine ten'

/** Milliseconds between two pieces. */
const PACE = [1]
const SLOW_PACE = [15]

const CAPABLE: Recordings = {
  capable: ({ tools = [], input }) => {
    const last = input.findLast((item) => item.type === 'message')
    const prompt = last?.type === 'message' ? last.content : ''
    if (tools.length > 0) {
      const script = new Script('capable', PACE).think(1, 'A tool knows.')
      return script.request(1, 'get_weather', { city: 'Zürich' }, 'call_1').end('tool_calls')
    }
    // Ends long after it was cancelled.
    if (prompt === PROMPTS.countLong) {
      return new Script('capable', SLOW_PACE).say(1, `${ONE_TO_TEN} `.repeat(8)).end()
    }
    if (prompt === PROMPTS.count) return new Script('capable', SLOW_PACE).say(1, ONE_TO_TEN).end()
    const text = prompt.slice(prompt.indexOf(':') + 2)
    return new Script('capable', PACE).think(1, 'Easy.').say(1, text).end()
  },
  error: new Script('error', PACE).breakOff(1, ONE_TO_TEN, {
    code: 'overloaded_error',
    message: 'Busy',
  }),
}

/** For as long as the test runs. */
export async function capableGateway() {
  const keys = new KeyRing([{ tenant: 'acme', name: 'doctor', sha256: sha256Of(KEY) }])
  return startGateway({ speed: 1, recordings: CAPABLE, keys })
}

export function endpointAt(url: string, api: Api): Endpoint {
  const baseUrl = `${url}/v1`
  return { api, baseUrl, key: KEY, model: MODEL, clock: systemClock, onProgress: () => {} }
}
