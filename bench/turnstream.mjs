// The package as it is published. Loaded by address, so that the types come from the sources and
// checking them needs no build.
const built = new URL('../dist/index.js', import.meta.url).href

/** @type {typeof import('../src/index.ts')} */
export const turnstream = await import(built)
