import { isTemporary } from './causes.ts'
import type { Models } from './models.ts'
import { Trouble } from './trouble.tsx'

const EXAMPLES = [
  {
    model: 'scripted/thinking',
    title: 'See it think',
    prompt:
      'A farmer, a wolf, a goat and a cabbage are at a river with a small boat. How many crossings?',
  },
  {
    model: 'scripted/approval',
    title: 'Approve a tool',
    prompt: 'Send greetings from the office to Lisbon',
  },
  {
    model: 'scripted/error',
    title: 'Watch a failure',
    prompt: 'What happens when the provider breaks off?',
  },
] as const

/** What a visitor sees first. */
export function Welcome(props: {
  models: Models
  onPrompt: (prompt: string, model: string) => void
}) {
  const { models, onPrompt } = props
  const { ids, error, retryAt, reload } = models
  if (error !== undefined) {
    return (
      <Trouble
        what="The models could not be loaded."
        cause={error}
        retryAt={retryAt}
        isRetried={isTemporary(error)}
        onRetry={reload}
      />
    )
  }
  const isScripted = ids?.every((model) => model.startsWith('scripted/')) ?? false
  return (
    <section class="welcome">
      <h2>{isScripted ? 'Try it without a key' : 'What would you like to know?'}</h2>
      <p>
        Every answer is stored while it is written: reload this page in the middle, open it in a
        second tab, or cut the network, and nothing is lost.
      </p>
      {isScripted && (
        <>
          <p>No provider is configured, so the models here play recordings:</p>
          <ul class="examples">
            {EXAMPLES.map(({ model, title, prompt }) => (
              <li key={model}>
                <button type="button" onClick={() => onPrompt(prompt, model)}>
                  <b>{title}</b>
                  <span>{prompt}</span>
                </button>
              </li>
            ))}
          </ul>
          <details>
            <summary>Use a real model</summary>
            <p>Stop the server and start it with the key of a provider:</p>
            <pre>
              <code>ANTHROPIC_API_KEY=… npx turnstream serve</code>
            </pre>
            <p>
              <code>OPENAI_API_KEY</code> and <code>GEMINI_API_KEY</code> work the same way. Without
              a key, add an Ollama, vLLM or llama.cpp server to the configuration.
            </p>
          </details>
        </>
      )}
    </section>
  )
}
