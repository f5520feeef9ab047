// One run: a Redis, a gateway that stays, and a sequence of gateways that are killed.
import { Random } from '../crash/random.mjs'
import { startRedis } from '../redis-server.mjs'
import { GatewayProcess } from './gateway.mjs'
import { Reader } from './reader.mjs'
import { checkReaders } from './verdict.mjs'

/**
 * @typedef {object} RunOptions
 * @property {number} kills
 * @property {string} seed
 * @property {(kill: number) => void} [onKill]
 */

const LEASE = '1s'
/** The long recording, played faster. */
const MODEL = 'scripted/long'
const SPEED = '2'
const MAX_FRAMES_BEFORE_KILL = 200
/** One client submits everything, faster than users would. */
const UNLIMITED = ['--submits-per-minute', 'unlimited', '--max-running-turns', 'unlimited']

/** @param {RunOptions} options */
export async function scaleOutRun({ kills, seed, onKill }) {
  const redis = await startRedis()
  const args = ['--store', redis.url, '--lease', LEASE, '--scripted-speed', SPEED, ...UNLIMITED]
  const survivor = await new GatewayProcess('survivor', args).listening()
  const random = new Random(seed)
  /** @type {number[]} */
  const endedAfterMs = []
  let events = 0
  try {
    for (let kill = 1; kill <= kills; kill++) {
      const owner = await new GatewayProcess(`owner-${kill}`, args).listening()
      try {
        const frames = random.between(1, MAX_FRAMES_BEFORE_KILL)
        const round = await killOwner({ owner, survivor, turnId: `turn-${kill}`, frames })
        events += round.events
        endedAfterMs.push(round.endedAfterMs)
      } finally {
        await owner.kill()
      }
      onKill?.(kill)
    }
  } finally {
    await survivor.kill()
    await redis.stop()
  }
  return { events, endedAfterMs }
}

/**
 * @typedef {object} Round
 * @property {GatewayProcess} owner
 * @property {GatewayProcess} survivor
 * @property {string} turnId
 * @property {number} frames After so many frames that a reader of the survivor has seen, the owner is killed.
 */

/** @param {Round} round */
async function killOwner({ owner, survivor, turnId, frames }) {
  const threadId = `thread of ${turnId}`.replaceAll(' ', '-')
  await owner.post('/api/v2/submit', { turnId, threadId, model: MODEL, prompt: 'at length' })
  const events = new Reader(`/api/v2/stream/${turnId}`)
  const outputs = new Reader(`/xapi/turns/${turnId}/stream`)
  const appended = new Reader(`/xapi/turns/${turnId}/stream?encoding=append`)
  const moved = new Reader(`/api/v2/stream/${turnId}`)
  const following = Promise.all([
    ...[events, outputs, appended].map((reader) => reader.follow(() => survivor.url)),
    moved.follow(() => (owner.hasExited ? survivor.url : owner.url)),
  ])
  await Promise.race([events.hasSeen(frames), following])
  await owner.kill()
  const killedAt = performance.now()
  await following
  checkReaders({ events, outputs, appended, moved })
  // The thread is idle again, and another gateway runs its next turn.
  await survivor.post('/api/v2/submit', {
    turnId: `${turnId}-next`,
    threadId,
    model: 'scripted/answer',
    prompt: 'once more',
  })
  const cancelled = await survivor.post(`/api/v2/runs/${turnId}-next/cancel`)
  if (cancelled.cancelled !== true) throw new Error(`${turnId}-next could not be cancelled`)
  return { events: events.frames.length, endedAfterMs: events.endedAt - killedAt }
}
