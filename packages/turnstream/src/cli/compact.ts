import { jsonLine } from '@turnstream/core/internal/protocol/json'
import { compactEmbeddedLog } from '../log/embedded/compact.ts'
import { defineCommand, EXIT } from './command.ts'
import { megabytes } from './text.ts'

export const compact = defineCommand({
  name: 'compact',
  summary: 'shrink an embedded store after deletions',
  usage: ['turnstream compact <directory> [--json]'],
  about: `The file of an embedded store does not shrink by itself; free space is reused. compact rewrites the
store without the free space. No other process may use the directory meanwhile, and the disk needs
space for a second copy. It is safe to interrupt.`,
  options: { json: { about: 'print one JSON object: {"bytesBefore","bytesAfter"} or {"error"}' } },
  words: { takes: 'one directory', min: 1, max: 1 },
  examples: ['turnstream compact ./data'],
  exitCodes: '0 done · 1 failed, the store is unchanged · 2 usage error',
  async run({ values, words: [directory = ''] }, terminal) {
    const { clock, status, write } = terminal
    const onProgress = (bytes: number) => status(`${megabytes(bytes)} written`)
    const compaction = await compactEmbeddedLog(directory, { clock, onProgress })
    status('')
    const { bytesBefore, bytesAfter } = compaction
    const freed = Math.round((1 - bytesAfter / bytesBefore) * 100)
    const text = `${megabytes(bytesBefore)} before, ${megabytes(bytesAfter)} after: ${freed} % freed\n`
    await write(values.json ? jsonLine(compaction) : text)
    return EXIT.done
  },
})
