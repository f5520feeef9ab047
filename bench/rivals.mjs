// Dependencies of this folder only. The type checker cannot resolve the dynamic names, so it does not need them
// installed.

/**
 * @template T
 * @typedef {AsyncIterable<T> & { push(value: T): void, end(): void }} Pushable
 */

/**
 * @template T
 * @typedef {(push: (value: T) => Promise<unknown>, stop: () => void) => void} Executor
 */

/** @param {string} name @returns {Promise<any>} */
const load = (name) => import(name)

/** @type {{ pushable: <T>(options: { objectMode: true }) => Pushable<T> }} */
export const { pushable } = await load('it-pushable')

/**
 * @type {{
 *   Repeater: new <T>(executor: Executor<T>, buffer?: object) => AsyncIterable<T>,
 *   FixedBuffer: new (capacity: number) => object,
 * }}
 */
export const { Repeater, FixedBuffer } = await load('@repeaterjs/repeater')

/**
 * @typedef {object} ResumableStreamContext
 * @property {(id: string, make: () => ReadableStream<string>) => Promise<ReadableStream<string>>} createNewResumableStream
 * @property {(id: string) => Promise<AsyncIterable<string> | null | undefined>} resumeExistingStream
 */

/**
 * @type {{
 *   createResumableStreamContext: (options: {
 *     waitUntil: null,
 *     publisher: object,
 *     subscriber: object,
 *   }) => ResumableStreamContext,
 * }}
 */
export const { createResumableStreamContext } = await load('resumable-stream/generic')
