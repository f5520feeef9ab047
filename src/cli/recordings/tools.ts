import type { Recording } from '../../adapters/scripted/wire.ts'
import { type RecordedCall, Script } from './script.ts'

const THOUGHTS =
  'The question needs the weather in two cities and the way between them. These do not depend on each ' +
  'other, so I ask for all three at once.'

const CALLS: readonly RecordedCall[] = [
  {
    name: 'get_weather',
    args: { city: 'Lisbon', day: 'tomorrow', unit: 'celsius' },
    output: { temperature: 17, rain: 0.1, wind: 'light' },
    ms: 900,
  },
  {
    name: 'get_weather',
    args: { city: 'Porto', day: 'tomorrow', unit: 'celsius' },
    output: { temperature: 13, rain: 0.8, wind: 'fresh' },
    ms: 600,
  },
  {
    name: 'find_trains',
    args: { from: 'Lisbon', to: 'Porto', date: 'tomorrow', after: '08:00' },
    output: { departures: ['08:09', '09:30'], minutes: 190 },
    ms: 1400,
  },
]

const ANSWER = `Take a coat: **Lisbon** will have 17 °C and hardly any rain tomorrow, but **Porto** 13 °C, a \
fresh wind and rain for most of the day.

Trains leave at **08:09** and **09:30** and take three hours and ten minutes, so with the first of them you \
are there before half past eleven.

(The weather and the trains are invented: this is a recording. What it shows is three calls that were made \
at once. Each became one card, whose output came when its tool was done and not in the order of the calls.)`

/** Three calls at once, run by the provider, and an answer made of their outputs. */
export function recordTools(): Recording {
  return withTools(new Script('tools'))
}

/** The same as a whole turn, with its question. */
export function recordToolsTurn(): Recording {
  const question = 'I go from Lisbon to Porto tomorrow. Should I take a coat, and which train?'
  return withTools(new Script('tools').ask(question))
}

function withTools(script: Script): Recording {
  return script.think(400, THOUGHTS).call(250, CALLS).say(350, ANSWER).end()
}
