// A chat that continues after a reload, a lost connection or a restart of the gateway. docs/client.md#react runs it.
import { memo, type SyntheticEvent } from 'react'
import { createClient, type ItemSnapshot } from 'turnstream/client'
import { useSubmit, useThread } from 'turnstream/react'

const client = createClient({ baseUrl: 'http://127.0.0.1:4010' })
// The same thread after a reload.
const threadId: string = (localStorage['threadId'] ??= crypto.randomUUID())

const Item = memo(({ item }: { item: ItemSnapshot }) => (
  <p className={item.type} style={{ whiteSpace: 'pre-wrap' }}>
    {item.type === 'tool_call' ? `${item.toolName} ${item.status}` : item.content}
  </p>
))

export default function App() {
  const { turns, connection } = useThread(client, threadId)
  const { submit } = useSubmit(client, threadId)
  const running = turns.findLast(({ status }) => status === 'running')
  const stop = () => running && client.cancel(running.turnId)

  function send(event: SyntheticEvent<HTMLFormElement>) {
    event.preventDefault()
    submit(String(new FormData(event.currentTarget).get('prompt')))
    event.currentTarget.reset()
  }

  return (
    <form onSubmit={send}>
      {turns.flatMap(({ items }) => items.map((item) => <Item key={item.itemId} item={item} />))}
      {turns.at(-1)?.end?.type === 'turn_error' && <p role="alert">The answer failed.</p>}
      {connection.status === 'reconnecting' && <p role="status">Reconnecting …</p>}
      <input name="prompt" placeholder="Ask something" required />
      <button type={running ? 'button' : 'submit'} onClick={stop}>
        {running ? 'Stop' : 'Send'}
      </button>
    </form>
  )
}
