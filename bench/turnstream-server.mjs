// The published stores: a separate entry, because they need Node and two packages.
const built = new URL('../packages/turnstream/dist/server.js', import.meta.url).href

/** @type {typeof import('../packages/turnstream/src/server.ts')} */
export const {
  createCodexProvider,
  createGateway,
  createProviderFetch,
  listen,
  MemoryLog,
  openEmbeddedLog,
  openRedisLog,
  Providers,
} = await import(built)

// It does not export this.
/** @type {typeof import('../packages/turnstream/src/codex/binary.ts')} */
export const { findCodex } = await import(
  new URL('../packages/turnstream/dist/codex/binary.js', import.meta.url).href
)
