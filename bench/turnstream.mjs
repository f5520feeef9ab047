// The published package. Loaded by URL: the types come from the sources, and checking them needs no build.
const dist = new URL('../dist/', import.meta.url)

/** @type {typeof import('../src/index.ts')} */
export const turnstream = await import(new URL('index.js', dist).href)

/** @type {typeof import('../src/testing/index.ts')} */
export const { fakeClock } = await import(new URL('testing/index.js', dist).href)

/** The files that pages load. */
export const clientFile = new URL('client.js', dist).pathname
export const shareFile = new URL('client-share.js', dist).pathname

/** @type {typeof import('../src/client.ts')} */
export const client = await import(clientFile)

// Parts that it does not export.

/** @type {typeof import('../src/formats/event-stamp.ts')} */
export const { EventStamp } = await import(new URL('formats/event-stamp.js', dist).href)

/** @type {typeof import('../src/formats/vendor-input.ts')} */
export const { VendorReader } = await import(new URL('formats/vendor-input.js', dist).href)

/** @type {typeof import('../src/protocol/ids.ts')} */
export const { eventIdsOf } = await import(new URL('protocol/ids.js', dist).href)

/** @type {typeof import('../src/cassettes/decode.ts')} */
export const { CassetteDecoder } = await import(new URL('cassettes/decode.js', dist).href)

/** @type {typeof import('../src/cassettes/compare.ts')} */
export const { compareCassettes } = await import(new URL('cassettes/compare.js', dist).href)

/** @type {typeof import('../src/turns/arguments-checker.ts')} */
export const { ArgumentsChecker } = await import(new URL('turns/arguments-checker.js', dist).href)
