export { type Locks, type ShareOptions, shareConnections } from './client/share.ts'
