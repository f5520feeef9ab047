// Writes llms.txt (https://llmstxt.org) from the index in docs/README.md.
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

const INTRODUCTION = `# turnstream

> Makes an LLM turn a durable log. Provider streams (OpenAI Responses and Chat Completions, Anthropic, Gemini, codex)
> become one event format. The events become complete snapshots that a user interface can render as they are. Readers
> can join, leave and resume at any time. TypeScript, ESM, Node 20.19 or newer. \`npx turnstream serve\` starts the
> gateway on http://127.0.0.1:4010 with recorded answers; it needs no key and no database.

Over HTTP: \`POST /api/v2/submit {"prompt"}\` returns \`{runId, turnId, threadId}\` at once, and the turn runs on the
server. \`GET /xapi/turns/{turnId}/stream\` is an event stream of snapshots. Each snapshot holds the full text of an item:
replace what you show, do not append. \`GET /api/v2/stream/{runId}\` streams the raw events. Resume with \`Last-Event-ID\`
or \`?from=\`. A turn ends with one \`turn_complete\` or \`turn_error\`. Disconnecting does not stop it;
\`POST /api/v2/runs/{runId}/cancel\` does. You can repeat a submit that has your own ids. OpenAI clients use
\`http://127.0.0.1:4010/v1\` as their base URL, Anthropic clients \`http://127.0.0.1:4010\`.

As a library: \`turnstream\` (adapters, processor, reducer, dialects; no Node APIs), \`turnstream/server\` (stores, turns,
gateway), \`turnstream/client\` (a client that reconnects, for browsers too), \`turnstream/react\` (hooks),
\`turnstream/testing\` (fake clock, conformance suite for stores).
`

/** Readers with little context can skip the last group: llmstxt.org calls it Optional. */
const TITLES = new Map([['Design', 'Optional']])

/**
 * @param {string} index the text of docs/README.md
 * @returns {string} the text of llms.txt
 */
export function toLlmsText(index) {
  const groups = index.split(/^## /m).slice(1)
  const sections = groups.map((group) => {
    const [title = '', ...lines] = group.trim().split('\n')
    const links = lines
      .filter((line) => line.startsWith('- '))
      .map((line) => line.replace(/\]\(([^)]+)\)/, (_, link) => `](${posix.join('docs', link)})`))
    return `## ${TITLES.get(title) ?? title}\n\n${links.join('\n')}\n`
  })
  return [INTRODUCTION, ...sections].join('\n')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(
    join(root, 'llms.txt'),
    toLlmsText(readFileSync(join(root, 'docs/README.md'), 'utf8')),
  )
}
