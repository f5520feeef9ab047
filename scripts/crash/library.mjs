// The built package: killed processes also run in a Node without TypeScript. Loads only what is needed, so that
// processes start quickly.
export { StreamProcessor } from '@turnstream/core/internal/processor/stream-processor'
export { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
export { eventIdsOf } from '@turnstream/core/internal/protocol/ids'

const built = new URL('../../packages/turnstream/dist/', import.meta.url)

/** @param {string} file */
function load(file) {
  return import(new URL(file, built).href)
}

/** @type {typeof import('../../packages/turnstream/src/log/memory-log.ts')} */
export const { MemoryLog } = await load('log/memory-log.js')

/** @type {typeof import('../../packages/turnstream/src/turns/reaper.ts')} */
export const { endOrphan } = await load('turns/reaper.js')

/** Where the data is. @typedef {{ directory: string, sync?: 'commit' | 'system' } | { url: string }} Place */

/** @param {Place} place @returns {Promise<import('../../packages/core/src/log/turn-log.ts').TurnLog>} */
export async function openLog(place) {
  if ('directory' in place) {
    /** @type {typeof import('../../packages/turnstream/src/log/embedded/open.ts')} */
    const { openEmbeddedLog } = await load('log/embedded/open.js')
    return openEmbeddedLog(place)
  }
  /** @type {typeof import('../../packages/turnstream/src/log/redis/open.ts')} */
  const { openRedisLog } = await load('log/redis/open.js')
  return openRedisLog(place)
}
