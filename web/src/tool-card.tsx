import { useState } from 'preact/hooks'
import type { ToolCall } from '../../packages/core/src/protocol/stream-output.ts'
import { client } from './gateway.ts'
import { approvalPath } from './outbox.ts'
import { Unsent } from './trouble.tsx'

/** A call of a tool: its arguments, while they are written too, its approval and its output. */
export function ToolCard({ call }: { call: ToolCall }) {
  const [isOpen, setOpen] = useState(false)
  const state = stateOf(call)
  const needsApproval = call.approval?.status === 'requested'
  return (
    <section class={isOpen || needsApproval ? 'card tool open' : 'card tool'}>
      <button
        type="button"
        class="card-head"
        aria-expanded={isOpen || needsApproval}
        onClick={() => setOpen(!isOpen)}
      >
        <span class={`dot ${state.tone}`}>
          <code>{call.toolName}</code> {state.text}
        </span>
        <span class="chevron" aria-hidden="true" />
      </button>
      {(isOpen || needsApproval) && (
        <div class="card-body">
          <p class="label">Arguments</p>
          <pre tabIndex={0}>{argumentsOf(call)}</pre>
          {call.toolOutput !== undefined && (
            <>
              <p class="label">{call.success === false ? 'Error' : 'Output'}</p>
              <pre tabIndex={0}>{textOf(call.toolOutput)}</pre>
            </>
          )}
          {call.errorMessage !== undefined && <p class="notice error">{call.errorMessage}</p>}
          {call.approval?.reason !== undefined && (
            <p class="hint">Reason: {call.approval.reason}</p>
          )}
          {needsApproval && <Approval call={call} />}
        </div>
      )}
    </section>
  )
}

function stateOf(call: ToolCall): { text: string; tone: 'busy' | 'live' | 'lost' | '' } {
  const { approval, status, toolOutput, success, toolArgumentsText } = call
  if (approval?.status === 'declined') return { text: 'was declined', tone: 'lost' }
  if (status === 'error' || success === false) return { text: 'failed', tone: 'lost' }
  if (toolOutput !== undefined) return { text: 'is done', tone: 'live' }
  if (status === 'complete') return { text: 'has no output', tone: '' }
  if (approval?.status === 'requested') return { text: 'waits for your approval', tone: 'busy' }
  if (toolArgumentsText !== undefined) return { text: 'is being called', tone: 'busy' }
  return { text: 'runs', tone: 'busy' }
}

function argumentsOf({ toolArguments, toolArgumentsText, content }: ToolCall): string {
  return toolArgumentsText ?? (content || JSON.stringify(toolArguments, null, 2))
}

function textOf(output: string | Readonly<Record<string, unknown>>): string {
  return typeof output === 'string' ? output : JSON.stringify(output, null, 2)
}

function Approval({ call }: { call: ToolCall }) {
  const [error, setError] = useState<string>()
  const [isSending, setSending] = useState(false)
  const answer = async (event: MouseEvent, approved: boolean) => {
    const { turnId, approval } = call
    if (approval === undefined) return
    // The buttons disappear.
    const button = event.currentTarget as HTMLButtonElement
    button.closest('.card')?.querySelector<HTMLElement>('.card-head')?.focus()
    setSending(true)
    try {
      await client.approve(turnId, approval.id, { approved })
      setError(undefined)
    } catch (cause) {
      setError((cause as Error).message)
    }
    setSending(false)
  }
  return (
    <>
      <div class="actions">
        <button type="button" disabled={isSending} onClick={(event) => void answer(event, false)}>
          Decline
        </button>
        <button
          type="button"
          class="primary"
          disabled={isSending}
          onClick={(event) => void answer(event, true)}
        >
          Approve
        </button>
      </div>
      {call.approval && (
        <Unsent id={approvalPath(call.turnId, call.approval.id)} what="Not sent yet." />
      )}
      {error !== undefined && (
        <p class="notice error" role="alert">
          {error}
        </p>
      )}
    </>
  )
}
