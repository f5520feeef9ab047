import type { Recording, StreamEvent } from '../packages/core/src/index.ts'
import {
  DEMO_MODELS,
  type DemoModel,
  demoRecording,
} from '../packages/turnstream/src/cli/demo/recordings.ts'

/** The demo recordings as lists of events. */
export const DEMOS = {} as Readonly<Record<DemoModel, Recording>>
for (const model of DEMO_MODELS) {
  Object.defineProperty(DEMOS, model, { enumerable: true, get: () => demoRecording(model) })
}

/** `tools` as a complete turn, with its question. */
export function toolsTurn(): Recording {
  const [start, ...rest] = DEMOS.tools
  if (start === undefined) throw new Error('the recording is empty')
  const id = `${start.run_id}-user-prompt`
  const content =
    'I am going from Lisbon to Porto tomorrow. Do I need a coat, and which train should I take?'
  const question = [
    { type: 'item_start', item_id: id, item_type: 'message' },
    {
      type: 'item_done',
      item_id: id,
      final_item: { type: 'message', id, content, origin: 'user' },
    },
  ].map((payload) => ({ ...start, type: payload.type, payload }) as StreamEvent)
  return [start, ...question, ...rest].map((event, index) => ({
    ...event,
    event_id: `00000000-0000-8000-8000-${String(index + 1).padStart(12, '0')}`,
  }))
}
