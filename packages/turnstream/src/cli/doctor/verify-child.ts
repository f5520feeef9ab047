import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { inspectEmbeddedLog } from '../../log/embedded/inspect.ts'
import type { FromChild } from './embedded-checks.ts'

/** Verifies the store in a directory. A separate process, because LMDB can crash on damaged pages. */

const report = (message: FromChild) => process.send?.(message)

process.on('disconnect', () => process.exit(1))

const [, , directory = ''] = process.argv
try {
  const facts = await inspectEmbeddedLog(directory, (done, total) => report({ done, total }))
  report({ facts })
} catch (error) {
  if (!(error instanceof TurnstreamError)) throw error
  report({ error: { code: error.code, message: error.message } })
}
process.disconnect()
