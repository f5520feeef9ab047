export type { Locks } from './client/multiplex.ts'
export { type ShareOptions, shareConnections } from './client/share.ts'
