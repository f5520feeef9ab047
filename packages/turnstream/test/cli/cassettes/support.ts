import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { CassetteDecoder } from '../../../../core/src/cassettes/decode.ts'
import type { Cassette } from '../../../../core/src/index.ts'

export function testFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-cassettes-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** The recordings of a directory by name; none if it does not exist. */
export function recordingsIn(directory: string): string[] {
  try {
    return readdirSync(directory).toSorted()
  } catch {
    return []
  }
}

export function readCassetteAt(path: string): Cassette {
  const decoder = new CassetteDecoder()
  decoder.feed(readFileSync(path))
  return decoder.end()
}

/** The response of a recorded call. */
export function responseText(cassette: Cassette, index = 0): string {
  return Buffer.concat(cassette.calls[index]?.chunks.map(({ bytes }) => bytes) ?? []).toString()
}
