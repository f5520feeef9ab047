import { useState } from 'preact/hooks'
import type { TurnView } from '../../packages/client/src/index.ts'
import { client } from './gateway.ts'
import { modelOf } from './model-choice.ts'

/** Calls that the client has to answer. This page runs no tools, so the person answers for them. */
export function PendingCalls({ turn }: { turn: TurnView }) {
  const calls = turn.end?.pendingCalls ?? []
  const [outputs, setOutputs] = useState<Readonly<Record<string, string>>>({})
  const [failed, setFailed] = useState<Readonly<Record<string, boolean>>>({})
  if (calls.length === 0) return null

  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const answers = calls.map(({ callId }) => ({
      callId,
      output: outputs[callId] ?? '',
      success: failed[callId] !== true,
    }))
    // It goes to the model that made the call.
    const model = modelOf(turn)
    client.answer(turn.threadId, answers, model === undefined ? {} : { model })
  }
  return (
    <form class="card open answers" onSubmit={submit}>
      <p>The model waits for the output of {calls.length === 1 ? 'a tool' : 'tools'}. Enter it:</p>
      {calls.map(({ callId, toolName }) => (
        <fieldset key={callId}>
          <legend>
            <code>{toolName}</code>
          </legend>
          <textarea
            aria-label={`Output of ${toolName}`}
            rows={2}
            value={outputs[callId] ?? ''}
            onInput={(event) => setOutputs({ ...outputs, [callId]: event.currentTarget.value })}
          />
          <label>
            <input
              type="checkbox"
              checked={failed[callId] ?? false}
              onChange={(event) => setFailed({ ...failed, [callId]: event.currentTarget.checked })}
            />{' '}
            It failed
          </label>
        </fieldset>
      ))}
      <div class="actions">
        <button type="submit" class="primary">
          Send {calls.length === 1 ? 'output' : 'outputs'}
        </button>
      </div>
    </form>
  )
}
