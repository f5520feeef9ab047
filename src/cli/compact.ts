import { compactEmbeddedLog } from '../log/embedded/compact.ts'
import { defineCommand, EXIT } from './command.ts'
import { jsonLine, megabytes } from './text.ts'

export const compact = defineCommand({
  name: 'compact',
  summary: 'give back the room that deleted turns left in a store',
  usage: ['turnstream compact <directory> [--json]'],
  about: `The file of an embedded store never shrinks by itself: room that becomes free is used again. This
writes the store anew without it. No process may use the directory meanwhile, and the disk needs room
for a second copy. Nothing is lost if it is stopped in the middle.`,
  options: { json: { about: 'one JSON object: {"bytesBefore","bytesAfter"}, or {"error"}' } },
  words: { takes: 'one directory', min: 1, max: 1 },
  examples: ['turnstream compact ./data'],
  exitCodes:
    '0 done · 1 it could not be done, and the store is as it was · 2 the command makes no sense',
  async run({ values, words: [directory = ''] }, terminal) {
    const { clock, status, write } = terminal
    const compaction = await compactEmbeddedLog(directory, {
      clock,
      onProgress: (bytes) => status(`${megabytes(bytes)} written`),
    })
    status('')
    const { bytesBefore, bytesAfter } = compaction
    const freed = Math.round((1 - bytesAfter / bytesBefore) * 100)
    const text = `${megabytes(bytesBefore)} before, ${megabytes(bytesAfter)} after: ${freed} % freed\n`
    await write(values.json ? jsonLine(compaction) : text)
    return EXIT.done
  },
})
