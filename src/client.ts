export { append, apply, EMPTY_VIEW, prepend, type TurnView, type View } from './client/view.ts'
export { type AppendFrame, applyAppend } from './protocol/append-frame.ts'
