import type { Recording } from '../../adapters/scripted/wire.ts'
import { Script } from './script.ts'

const TEXT = `**This is a recorded answer.** No model read your question: the \`scripted\` provider plays \
the same text to everybody, so that you can try everything here without a key.

What happens while you read:

1. The provider sends some forty small pieces of text each second. Each one becomes a *StreamEvent* and is \
written to a log before anybody sees it.
2. A processor turns them into *snapshots*: the whole text so far, often at first and less often later. \
They go into a second log.
3. Whatever you watch this with reads from the logs alone. There is no other way for text to arrive, so a \
reader that comes late, comes back or comes twice sees the same as one that was there all the time.

Try to break it:

- Stop reading in the middle and come back. The answer went on without you, and you get the rest.
- Open it a second time, from anywhere, as soon as you like.
- Kill the server with \`kill -9\` and start it again. What you have seen is still there (unless turns are \
kept in memory), and the turn ends truthfully: as an error, because nobody was left to write its end.
- Cancel it, from anywhere. The text so far is kept, and a provider would be stopped.

Ask for \`scripted/thinking\`, \`scripted/tools\`, \`scripted/error\` or \`scripted/long\` to see the other \
recordings. For a real model set \`OPENAI_API_KEY\`, \`ANTHROPIC_API_KEY\` or \`GEMINI_API_KEY\` and start \
the server again.`

/** A plain answer. */
export function recordAnswer(): Recording {
  return new Script('answer').say(400, TEXT).end()
}
