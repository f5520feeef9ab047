import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { ACME } from '../auth/support.ts'
import type { TestServer } from '../support.ts'

/** A request of the abusive key, as it is sent. */
export function rawRequest(head: string, body = ''): string {
  const type = 'content-type: application/json'
  const length = `content-length: ${Buffer.byteLength(body)}`
  const fields = [type, length, `authorization: Bearer ${ACME}`]
  return `${head} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n${fields.join('\r\n')}\r\n\r\n${body}`
}

export interface Flood {
  readonly requests: readonly string[]
  /** Which to send, and whether to read the response. */
  readonly plan: readonly { readonly request: number; readonly isRead: boolean }[]
  /** How many at a time. */
  readonly parallel?: number
}

/** Runs `work` while another process sends requests. */
export async function duringFlood<T>(
  { url }: TestServer,
  flood: Flood,
  work: () => Promise<T>,
): Promise<T> {
  const child = fork(fileURLToPath(new URL('flood.mjs', import.meta.url)))
  const exited = once(child, 'exit')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await exited
  })
  child.send({ port: Number(new URL(url).port), ...flood })
  await once(child, 'message')
  const result = await work()
  child.disconnect()
  await exited
  return result
}
