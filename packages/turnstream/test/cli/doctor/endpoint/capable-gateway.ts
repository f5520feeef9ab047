/** A gateway whose model can do what the doctor asks for. */

import {
  type Api,
  type Endpoint,
  PROMPTS,
} from '../../../../../conformance/src/endpoint/exchange.ts'
import { systemClock } from '../../../../../core/src/async/clock.ts'
import type { Recording, Recordings } from '../../../../../core/src/index.ts'
import { demoRecording } from '../../../../src/cli/demo/recordings.ts'
import { Script } from '../../../../src/cli/demo/script.ts'
import { KeyRing, sha256Of } from '../../../../src/server/auth/key-ring.ts'
import { startGateway } from '../../gateway.ts'

export const KEY = 'planted-gateway-key-0123456789'
export const MODEL = 'scripted/capable'

const ONE_TO_TEN = 'one two three four five six seven eight nine ten'

/** Milliseconds between two events. */
const PACE = 1
const SLOW_PACE = 15

function paced(recording: Recording, ms = PACE): Recording {
  return recording.map((event, index) => ({ ...event, timestamp: ms * index }))
}

const CAPABLE: Recordings = {
  capable: ({ tools = [], input }) => {
    const last = input.findLast((item) => item.type === 'message')
    const prompt = last?.type === 'message' ? last.content : ''
    if (tools.length > 0) {
      const script = new Script('capable').think(1, 'A tool knows.')
      script.request(1, 'get_weather', { city: 'Zürich' }, 'call_1')
      return paced(script.end('tool_calls'))
    }
    // Ends long after it was cancelled.
    if (prompt === PROMPTS.countLong) {
      const script = new Script('capable').say(1, `${ONE_TO_TEN} `.repeat(8))
      return paced(script.end(), SLOW_PACE)
    }
    if (prompt === PROMPTS.count) {
      return paced(new Script('capable').say(1, ONE_TO_TEN).end(), SLOW_PACE)
    }
    const text = prompt.slice(prompt.indexOf(':') + 2)
    return paced(new Script('capable').think(1, 'Easy.').say(1, text).end())
  },
  error: () => paced(demoRecording('error')),
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
