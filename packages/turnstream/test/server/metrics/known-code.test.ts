import { expect, test } from 'vitest'
import { knownCode } from '../../../src/server/metrics/gateway-metrics.ts'

test.each([
  ['TURN_TEXT_LIMIT', 'TURN_TEXT_LIMIT'],
  ['HTTP_503', 'HTTP_503'],
  ['insufficient_quota', 'insufficient_quota'],
  ['the-vendors-own', 'other'],
  ['HTTP_50312', 'other'],
  ['constructor', 'other'],
])('the label of the code %s is %s', (code, label) => {
  expect(knownCode(code)).toBe(label)
})
