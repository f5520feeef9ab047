import type { Recording } from '../../adapters/scripted/wire.ts'
import { Script } from './script.ts'

const THOUGHTS = `A farmer has a wolf, a goat and a cabbage, and a boat for himself and one of them. Left \
alone, the wolf eats the goat and the goat eats the cabbage.

Every forbidden pair has the goat in it, so the goat has to cross first. Then he returns alone and takes \
either of the others, say the wolf. Now wolf and goat would be together on the far side while he goes back, \
so he must not leave them: he takes the goat back with him. Then the cabbage goes over, which may stay with \
the wolf, and last the goat again.

Crossings: goat, back, wolf, goat back, cabbage, back, goat. That is seven. Can it be shorter? Each of \
the three needs a crossing forward, and between two crossings forward there is one back: at least five. \
With five, every return is empty; but after the second load he would leave the goat with what it must not \
be left with. So seven is the least.`

const ANSWER = `He needs **seven crossings**:

| # | to the far side | back | left behind | on the far side |
|---|---|---|---|---|
| 1 | goat | | wolf, cabbage | goat |
| 2 | | alone | wolf, cabbage | goat |
| 3 | wolf | | cabbage | wolf, goat |
| 4 | | goat | goat, cabbage | wolf |
| 5 | cabbage | | goat | wolf, cabbage |
| 6 | | alone | goat | wolf, cabbage |
| 7 | goat | | | all three |

The trick is the fourth: he takes the goat *back*.

(A recording, like everything of the \`scripted\` provider. What came before this was reasoning: an item of \
its own, which a user interface may show, fold away or leave out.)`

/** Reasoning, then an answer. */
export function recordThinking(): Recording {
  return new Script('thinking').think(500, THOUGHTS).say(300, ANSWER).end()
}
