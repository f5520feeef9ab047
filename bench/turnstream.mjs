// The published package. Loaded by URL: the types come from the sources, and checking them needs no build.
const dist = new URL('../packages/turnstream/dist/', import.meta.url)

/** @type {typeof import('../packages/turnstream/src/index.ts')} */
export const turnstream = await import(new URL('index.js', dist).href)

/** @type {typeof import('../packages/conformance/src/index.ts')} */
export const { fakeClock } = await import(new URL('testing/index.js', dist).href)

/** The files that pages load. */
export const clientFile = new URL('client.js', dist).pathname
export const shareFile = new URL('client-share.js', dist).pathname

/** @type {typeof import('../packages/client/src/index.ts')} */
export const client = await import(clientFile)

// Parts that it does not export.

/** @type {typeof import('../packages/core/src/formats/event-stamp.ts')} */
export const { EventStamp } = await import(new URL('formats/event-stamp.js', dist).href)

/** @type {typeof import('../packages/core/src/formats/vendor-input.ts')} */
export const { VendorReader } = await import(new URL('formats/vendor-input.js', dist).href)

/** @type {typeof import('../packages/core/src/protocol/ids.ts')} */
export const { eventIdsOf } = await import(new URL('protocol/ids.js', dist).href)

/** @type {typeof import('../packages/core/src/cassettes/decode.ts')} */
export const { CassetteDecoder } = await import(new URL('cassettes/decode.js', dist).href)

/** @type {typeof import('../packages/core/src/cassettes/compare.ts')} */
export const { compareCassettes } = await import(new URL('cassettes/compare.js', dist).href)

/** @type {typeof import('../packages/turnstream/src/turns/arguments-checker.ts')} */
export const { ArgumentsChecker } = await import(new URL('turns/arguments-checker.js', dist).href)
