import { useState } from 'preact/hooks'
import type { TurnView } from '../../packages/client/src/index.ts'
import { useSeconds } from './countdown.ts'
import { client } from './gateway.ts'
import { modelOf } from './model-choice.ts'
import { useDelivery } from './outbox.ts'
import { Unsent } from './trouble.tsx'

/** Longer waits are explained. */
const LONG_S = 5

/** What a turn waits for before its first words. */
export function Waiting({ turn }: { turn: TurnView }) {
  const { turnId } = turn
  const delivery = useDelivery(turnId)
  if (delivery?.cause !== undefined)
    return <Unsent id={turnId} what="Not sent yet." onStop={() => void client.cancel(turnId)} />
  if (delivery !== undefined) return <p class="waiting">Sending</p>
  return <WaitingForModel turn={turn} />
}

function WaitingForModel({ turn }: { turn: TurnView }) {
  const [since] = useState(Date.now)
  const seconds = useSeconds(since)
  const model = modelOf(turn) ?? 'the model'
  return (
    <p class="waiting">
      {seconds < LONG_S ? 'Waiting for the first words' : `Waiting for ${model} for ${seconds} s`}
    </p>
  )
}
