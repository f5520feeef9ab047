import { expect, test } from 'vitest'
import * as paths from '../../src/client/paths.ts'
import { ROUTES } from '../../src/protocol/names.ts'

test('the paths of the client are those of the gateway', () => {
  const filled = {
    [ROUTES.submit]: paths.SUBMIT_PATH,
    [ROUTES.threads]: paths.THREADS_PATH,
    [ROUTES.thread]: paths.threadPath(':threadId'),
    [ROUTES.runCancel]: paths.cancelPath(':runId'),
    [ROUTES.runApproval]: paths.approvalPath(':runId', ':approvalId'),
    [ROUTES.turnOutputs]: paths.turnOutputsPath(':turnId'),
    [ROUTES.turnOutputStream]: `${paths.turnOutputsPath(':turnId')}/stream`,
    [ROUTES.threadOutputs]: paths.threadOutputsPath(':threadId'),
    [ROUTES.threadOutputStream]: `${paths.threadOutputsPath(':threadId')}/stream`,
  }
  for (const [route, path] of Object.entries(filled)) expect(decodeURIComponent(path)).toBe(route)
  expect(paths.threadPath('a/b')).toBe('/api/v2/threads/a%2Fb')
})
