// A runtime for assistant-ui (https://www.assistant-ui.com): its components show a thread of the gateway. Messages
// stream, continue after a reload, and can be stopped, edited and regenerated; tools run in the page or wait for
// approval.
import {
  type AppendMessage,
  AssistantRuntimeProvider,
  ComposerPrimitive,
  MessagePrimitive,
  type MessageStatus,
  type ThreadMessageLike,
  ThreadPrimitive,
  type ToolCallMessagePartProps,
  useExternalStoreRuntime,
} from '@assistant-ui/react'
import { useMemo, useRef } from 'react'
import type { Client, ItemSnapshot, ToolAnswer, TurnSettings, TurnView } from 'turnstream/client'
import { useSubmit, useThread } from 'turnstream/react'

/** A prompt, or a turn for its answer. Both keep their identity until they change. */
type Message = ItemSnapshot | TurnView

export function useTurnstreamRuntime(client: Client, threadId: string, settings?: TurnSettings) {
  const { turns } = useThread(client, threadId)
  const { submit } = useSubmit(client, threadId)
  const answers = useRef(new Map<string, ToolAnswer>())
  const messages = useMemo(
    () => turns.flatMap((turn): Message[] => [...turn.items.filter(isPrompt), turn]),
    [turns],
  )
  const running = turns.findLast(({ status }) => status === 'running')
  /** Submits in place of the prompt that led to a message, and of everything after it. */
  const replace = (messageId: string | null, text?: string) => {
    const at = turns.findIndex(
      (turn) => turn.turnId === messageId || promptOf(turn)?.itemId === messageId,
    )
    const turn = turns.slice(0, at + 1).findLast(promptOf)
    const prompt = text ?? (turn && promptOf(turn)?.content)
    if (turn && prompt) submit({ ...settings, prompt, replaces: turn.turnId })
  }

  return useExternalStoreRuntime<Message>({
    messages,
    isRunning: running !== undefined,
    convertMessage: toThreadMessage,
    onNew: async (message) => {
      submit({ ...settings, prompt: textOf(message) })
    },
    onEdit: async (message) => replace(message.sourceId, textOf(message)),
    onReload: async (parentId) => replace(parentId),
    onCancel: async () => {
      if (running) await client.cancel(running.turnId)
    },
    onAddToolResult: ({ toolCallId, result, isError }) => {
      answers.current.set(toolCallId, { callId: toolCallId, output: result, success: !isError })
      const ready = turns
        .at(-1)
        ?.end?.pendingCalls?.map(({ callId }) => answers.current.get(callId))
      // All calls of a turn are answered together.
      if (!ready?.every((answer) => answer !== undefined)) return
      answers.current.clear()
      client.answer(threadId, ready, settings)
    },
    onRespondToToolApproval: async ({ approvalId, approved, reason }) => {
      if (!running) return
      await client.approve(running.turnId, approvalId, { approved, ...(reason && { reason }) })
    },
  })
}

function isPrompt(item: ItemSnapshot): boolean {
  return item.type === 'message' && item.origin === 'user'
}

function promptOf({ items }: TurnView): ItemSnapshot | undefined {
  return items.find(isPrompt)
}

function textOf({ content }: AppendMessage): string {
  return content.flatMap((part) => (part.type === 'text' ? part.text : [])).join('\n')
}

function toThreadMessage(message: Message): ThreadMessageLike {
  if (!('items' in message)) return { role: 'user', id: message.itemId, content: message.content }
  return {
    role: 'assistant',
    id: message.turnId,
    content: message.items.filter((item) => !isPrompt(item)).map(toPart),
    status: statusOf(message),
  }
}

function toPart(item: ItemSnapshot): Exclude<ThreadMessageLike['content'], string>[number] {
  if (item.type === 'message') return { type: 'text', text: item.content }
  if (item.type === 'thinking') return { type: 'reasoning', text: item.content }
  const { approval, errorMessage, toolOutput = errorMessage } = item
  return {
    type: 'tool-call',
    toolCallId: item.callId,
    toolName: item.toolName,
    argsText: item.toolArgumentsText ?? JSON.stringify(item.toolArguments),
    ...(toolOutput !== undefined && { result: toolOutput, isError: item.success === false }),
    ...(approval && {
      approval: {
        id: approval.id,
        ...(approval.status !== 'requested' && { approved: approval.status === 'approved' }),
      },
    }),
  }
}

function statusOf({ status, end }: TurnView): MessageStatus {
  if (status === 'running') return { type: 'running' }
  if (status === 'aborted') return { type: 'incomplete', reason: 'cancelled' }
  if (end?.type === 'turn_error') {
    return { type: 'incomplete', reason: 'error', error: end.error.message }
  }
  if (end?.pendingCalls) return { type: 'requires-action', reason: 'tool-calls' }
  if (end?.finishReason === 'length') return { type: 'incomplete', reason: 'length' }
  return { type: 'complete', reason: 'stop' }
}

const PARTS = {
  tools: {
    Fallback: ({ toolName, result }: ToolCallMessagePartProps) => (
      <pre>
        {toolName} {JSON.stringify(result)}
      </pre>
    ),
  },
}

/** A plain chat. Style the primitives, or use the components that `npx assistant-ui add thread` installs. */
export function Chat({ client, threadId, settings }: ChatProps) {
  return (
    <AssistantRuntimeProvider runtime={useTurnstreamRuntime(client, threadId, settings)}>
      <ThreadPrimitive.Root>
        <ThreadPrimitive.Messages>
          {({ message }) => (
            <MessagePrimitive.Root data-role={message.role}>
              <MessagePrimitive.Parts components={PARTS} />
            </MessagePrimitive.Root>
          )}
        </ThreadPrimitive.Messages>
        <ComposerPrimitive.Root>
          <ComposerPrimitive.Input placeholder="Ask something" />
          <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
          <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  )
}

interface ChatProps {
  readonly client: Client
  readonly threadId: string
  readonly settings?: TurnSettings
}
