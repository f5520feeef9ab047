'use client'

export { type SubmitState, useSubmit } from './react/use-submit.ts'
export { useThread } from './react/use-thread.ts'
export { type ThreadsState, useThreads } from './react/use-threads.ts'
export { useTurn } from './react/use-turn.ts'
