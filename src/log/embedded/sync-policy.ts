/**
 * - `commit`: a record is on the disk before it is acknowledged, and survives a power cut.
 * - `system`: a record is with the operating system before it is acknowledged. It survives the death of
 *   the process in whatever way, but when the machine dies, the store may be damaged as a whole.
 */
export type SyncPolicy = 'commit' | 'system'
