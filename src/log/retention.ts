/**
 * The record of a turn is kept this many times as long as its logs, so that whoever comes back late
 * hears that the turn has expired, and not that there never was one.
 */
export const RECORDS_OUTLIVE_LOGS = 4
