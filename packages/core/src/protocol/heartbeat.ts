const ANNOUNCEMENT = /^ ?heartbeat every (\d{1,9}) ms$/

/** The comment at the start of a stream: how long it may be silent before the server sends another. */
export function heartbeatAnnouncement(intervalMs: number): string {
  return `heartbeat every ${Math.max(1, intervalMs)} ms`
}

/** Reads the interval from a comment, if it announces one. */
export const parseHeartbeatAnnouncement = (comment = ''): number | undefined =>
  Number(ANNOUNCEMENT.exec(comment)?.[1]) || undefined
