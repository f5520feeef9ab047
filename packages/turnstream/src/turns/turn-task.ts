import type { Clock } from '@turnstream/core/internal/async/clock'
import type { Submission } from '@turnstream/core/internal/formats/submission'
import type { Lease, TurnLog } from '@turnstream/core/internal/log/turn-log'
import type { OutputItem } from '@turnstream/core/internal/protocol/output-item'
import type { ResolvedProcessor } from './processor-settings.ts'
import type { ChosenModel } from './providers.ts'
import type { InputSize } from './thread-history.ts'
import type { AnswerKey } from './thread-index.ts'
import type { ToolRegistry } from './tools.ts'
import type { TurnCaps } from './turn-items.ts'
import type { TurnObserver } from './turn-observer.ts'
import type { AnsweredCalls } from './turn-request.ts'

export interface TurnServices {
  readonly log: TurnLog
  readonly tools: ToolRegistry
  readonly caps: TurnCaps
  readonly processor: ResolvedProcessor
  readonly leaseMs: number
  readonly clock: Clock
  readonly observer: TurnObserver
  readonly onError: (error: unknown, about: { readonly turnId?: string }) => void
}

/** What a turn needs of a submission. With a `history`, the stored thread is not read. */
type Submitted = Pick<
  Submission,
  'agentId' | 'history' | 'parameters' | 'replaces' | 'serverTools' | 'settings' | 'traceContext'
>

export interface TurnTask extends ChosenModel, Submitted {
  readonly tenant: string
  readonly threadId: string
  readonly lease: Lease
  /** When the lease was requested, in monotonic time. */
  readonly since: number
  /** History and input as items of the turn. */
  readonly input: readonly OutputItem[]
  readonly answers: AnsweredCalls
  readonly historyRoom: InputSize
  readonly answerKey: AnswerKey | undefined
}
