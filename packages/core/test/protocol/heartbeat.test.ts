import { expect, test } from 'vitest'
import { heartbeatAnnouncement, parseHeartbeatAnnouncement } from '../../src/protocol/heartbeat.ts'

test('an announced interval is read back', () => {
  expect(parseHeartbeatAnnouncement(` ${heartbeatAnnouncement(15_000)}`)).toBe(15_000)
  expect(parseHeartbeatAnnouncement(heartbeatAnnouncement(0))).toBe(1)
})

test.each([' heartbeat', ' heartbeat every 1e3 ms', ' heartbeat every 1234567890 ms', ''])(
  '%j announces nothing',
  (comment) => {
    expect(parseHeartbeatAnnouncement(comment)).toBeUndefined()
  },
)
