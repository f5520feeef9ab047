import { expect, test } from 'vitest'
import { guardObserver, type TurnObserver } from '../../src/turns/turn-observer.ts'
import { answer, end } from './payloads.ts'
import { newRig, outputsOf } from './rig.ts'

const METHODS = ['started', 'answered', 'ended'] as const satisfies (keyof TurnObserver)[]

test.each(METHODS)('an observer whose %s throws does not cost the end', async (name) => {
  const thrower = (): never => {
    throw new Error('no observer')
  }
  const rig = newRig({
    rounds: [[...answer('a', 'Hi'), end()]],
    observer: { ...guardObserver(undefined, () => {}), [name]: thrower },
  })
  await rig.submit()
  await rig.settled()
  expect((await outputsOf(rig.log)).at(-1)).toMatchObject({
    type: 'turn_complete',
    status: 'complete',
  })
  expect(rig.runner.running).toBe(0)
  expect(rig.errors).toEqual(['no observer'])
})
