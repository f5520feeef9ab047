// The stores as they are published: an entry of their own, because they need Node and two packages.
const built = new URL('../dist/server.js', import.meta.url).href

/** @type {typeof import('../src/server.ts')} */
export const {
  createGateway,
  createProviderFetch,
  listen,
  MemoryLog,
  openEmbeddedLog,
  openRedisLog,
  Providers,
} = await import(built)
