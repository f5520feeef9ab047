// A chat that continues after a reload, a lost connection or a restart of the gateway. docs/client.md#react runs it.
import { memo, type SyntheticEvent } from 'react'
import { createClient, type ItemSnapshot } from 'turnstream/client'
import { useSubmit, useThread } from 'turnstream/react'

const client = createClient({ baseUrl: 'http://127.0.0.1:4010' })
localStorage['threadId'] ??= crypto.getRandomValues(new Uint32Array(4)).join('-')
const threadId: string = localStorage['threadId']

const Item = memo(({ item }: { item: ItemSnapshot }) => (
  <p>{item.type === 'tool_call' ? `${item.toolName} ${item.status}` : item.content}</p>
))

export default function App() {
  const { turns, connection } = useThread(client, threadId)
  // A thread is 404 until its first turn.
  const cause = connection.cause?.status === 404 ? undefined : connection.cause
  const { submit } = useSubmit(client, threadId)
  const running = turns.findLast(({ status }) => status === 'running')
  const stop = () => running && client.cancel(running.turnId)

  function send(event: SyntheticEvent<HTMLFormElement>) {
    event.preventDefault()
    if (running) return
    submit(String(new FormData(event.currentTarget).get('prompt')))
    event.currentTarget.reset()
  }

  return (
    <form onSubmit={send} style={{ whiteSpace: 'pre-wrap' }}>
      {turns.flatMap(({ items }) => items.map((item) => <Item key={item.itemId} item={item} />))}
      {turns.at(-1)?.end?.type === 'turn_error' && <p role="alert">The answer failed.</p>}
      {cause && <p role="status">{`${connection.status}: ${cause.message}`}</p>}
      <input name="prompt" placeholder="Ask something" required />
      <button type={running && 'button'} onClick={stop}>
        {running ? 'Stop' : 'Send'}
      </button>
    </form>
  )
}
