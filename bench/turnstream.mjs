// The published package. Loaded by URL: the types come from the sources, and checking them needs no build.
const dist = new URL('../packages/turnstream/dist/', import.meta.url)

/** @type {typeof import('../packages/turnstream/src/index.ts')} */
export const turnstream = await import(new URL('index.js', dist).href)

/** @type {typeof import('../packages/conformance/src/index.ts')} */
export const { fakeClock } = await import('@turnstream/conformance')

/** The files that pages load. */
export const clientFile = new URL('../packages/client/dist/index.js', import.meta.url).pathname
export const shareFile = new URL('../packages/client/dist/share.js', import.meta.url).pathname

/** @type {typeof import('../packages/client/src/index.ts')} */
export const client = await import(clientFile)

// Parts that they do not export.

/** @type {typeof import('../packages/client/src/client/sse.ts')} */
export const { createFrameReader } = await import(
  new URL('client/sse.js', new URL(clientFile, 'file://')).href
)

/** @type {typeof import('../packages/core/src/formats/event-stamp.ts')} */
export const { EventStamp } = await import('@turnstream/core/internal/formats/event-stamp')

/** @type {typeof import('../packages/core/src/formats/vendor-input.ts')} */
export const { VendorReader } = await import('@turnstream/core/internal/formats/vendor-input')

/** @type {typeof import('../packages/core/src/protocol/ids.ts')} */
export const { eventIdsOf } = await import('@turnstream/core/internal/protocol/ids')

/** @type {typeof import('../packages/core/src/cassettes/decode.ts')} */
export const { CassetteDecoder } = await import('@turnstream/core/internal/cassettes/decode')

/** @type {typeof import('../packages/core/src/cassettes/compare.ts')} */
export const { compareCassettes } = await import('@turnstream/core/internal/cassettes/compare')

/** @type {typeof import('../packages/turnstream/src/turns/arguments-checker.ts')} */
export const { ArgumentsChecker } = await import(new URL('turns/arguments-checker.js', dist).href)
