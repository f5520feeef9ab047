import { readFileSync, statSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import { CASSETTE_LIMITS, CassetteDecoder } from '@turnstream/core/internal/cassettes/decode'
import { cassetteRecording } from '@turnstream/core/internal/cassettes/recording'
import type { Recordings } from '@turnstream/core/internal/formats/v2/recording'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { fileFault, UsageError } from '../command.ts'
import { megabytes } from '../text.ts'

/** Reads cassettes as models of the scripted provider: `bug-42.cassette.jsonl` is `bug-42`. */
export function readCassetteModels(
  files: readonly string[],
  cwd: string,
  taken: readonly string[],
): Recordings {
  const models = new Map<string, Recordings[string]>()
  for (const file of files) {
    const name = basename(file).replace(/(?:\.cassette)?\.jsonl$/, '')
    if (taken.includes(name) || models.has(name)) {
      throw new UsageError(`cassettes: scripted already has a model ${name}; rename ${file}`)
    }
    models.set(name, readModel(resolve(cwd, file), file))
  }
  return Object.fromEntries(models)
}

function readModel(path: string, file: string): Recordings[string] {
  try {
    const { size } = statSync(path)
    if (size > CASSETTE_LIMITS.maxBytes) {
      throw new UsageError(`cassettes: ${file} has ${megabytes(size)}, which is too large`)
    }
    const decoder = new CassetteDecoder()
    decoder.feed(readFileSync(path))
    return cassetteRecording(decoder.end())
  } catch (error) {
    if (error instanceof UsageError) throw error
    if (error instanceof TurnstreamError) {
      throw new UsageError(`cassettes: ${file}: ${error.message} (${error.code})`)
    }
    throw new UsageError(`cassettes: ${fileFault(error, file)}`)
  }
}
