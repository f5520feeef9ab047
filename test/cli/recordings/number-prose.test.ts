import { expect, test } from 'vitest'
import { tellNumber } from '../../../src/cli/recordings.ts'

test.each([
  [1, ['neither prime nor composite', 'In binary it is 1, with a single one']],
  [2, ['a prime number.', 'In binary it is 10']],
  [7, ['a prime number, and with 5 it forms a pair of twin primes']],
  [11, ['like its twin 13', 'a palindrome']],
  [23, ['**23** is a prime number.']],
  [6, ['2 times 3', '4 divisors', 'add up to 6, the number itself, which makes it perfect']],
  [12, ['2 squared times 3', 'add up to 16, 4 more than the number']],
  [27, ['3 cubed', 'add up to 13, 14 less than the number']],
  [28, ['perfect', 'the sum of all numbers up to 7']],
  [144, ['2 to the power of 4 times 3 squared', 'a square with a side of 12', 'Fibonacci']],
  [496, ['perfect', 'the sum of all numbers up to 31']],
  [600, ['24 divisors', 'add up to 1260']],
])('every statement about %i is true', (number, facts) => {
  for (const fact of facts) expect(tellNumber(number)).toContain(fact)
})

test('no false statement is made', () => {
  expect(tellNumber(8)).not.toContain('square with')
  expect(tellNumber(10)).not.toContain('backwards')
  expect(tellNumber(9)).not.toContain('prime number')
  expect(tellNumber(23)).not.toContain('twin')
})
