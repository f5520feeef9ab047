import type { Recording } from '../../adapters/scripted/wire.ts'
import { tellNumber } from './number-prose.ts'
import { type Pace, Script } from './script.ts'

const LAST = 640
const CHAPTER = 40

/** Some 400 deltas a second, in bursts, as a fast model behind a busy network sends them. */
const FAST_PACE: Pace = [20, 0, 0, 0, 0, 0, 0, 0]

const INTRODUCTION = `This answer is long on purpose: more than twenty thousand tokens. It counts, so that \
you can see with your own eyes whether something is missing or comes twice. Cut the connection wherever you \
like, come back, open it a second time, stop it in the middle.`

/** A very long answer. */
export function recordLong(): Recording {
  return new Script('long', FAST_PACE).say(400, longText()).end()
}

function longText(): string {
  const parts = ['# A walk through the numbers', INTRODUCTION]
  for (let n = 1; n <= LAST; n++) {
    if (n % CHAPTER === 1) parts.push(`## From ${n} to ${n + CHAPTER - 1}`)
    parts.push(tellNumber(n))
  }
  parts.push(`That was ${LAST}. If you have seen every number before it once, nothing was lost.`)
  return parts.join('\n\n')
}
