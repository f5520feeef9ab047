/** What can be said of one whole number, as a paragraph. All of it is computed, and all of it is true. */
export function tellNumber(n: number): string {
  return [opening(n), ofDivisors(n), ofShape(n), ofBinary(n)].filter(Boolean).join(' ')
}

function opening(n: number): string {
  if (n === 1) return '**1** is where counting begins; it is neither prime nor composite.'
  const factors = primeFactors(n)
  if (factors.length === 1) return `**${n}** is a prime number${twinOf(n)}.`
  return `**${n}** is ${product(factors)}.`
}

function twinOf(n: number): string {
  if (primeFactors(n - 2).length === 1) return `, and with ${n - 2} it makes a pair of twins`
  if (primeFactors(n + 2).length === 1) return `, and its twin ${n + 2} is near`
  return ''
}

function product(factors: readonly number[]): string {
  const powers = new Map<number, number>()
  for (const factor of factors) powers.set(factor, (powers.get(factor) ?? 0) + 1)
  return [...powers].map(([base, exponent]) => power(base, exponent)).join(' times ')
}

function power(base: number, exponent: number): string {
  if (exponent === 1) return `${base}`
  if (exponent === 2) return `${base} squared`
  if (exponent === 3) return `${base} cubed`
  return `${base} to the power of ${exponent}`
}

function ofDivisors(n: number): string {
  const divisors = divisorsOf(n)
  if (divisors.length <= 2) return ''
  const sum = divisors.reduce((total, each) => total + each, 0) - n
  return `It has ${divisors.length} divisors; all but itself add up to ${sum}, ${judgement(sum, n)}.`
}

function judgement(sum: number, n: number): string {
  if (sum === n) return 'the number itself, which makes it perfect'
  return sum > n ? `${sum - n} more than the number` : `${n - sum} less than the number`
}

function ofShape(n: number): string {
  const facts: string[] = []
  const side = Math.round(Math.sqrt(n))
  if (side * side === n && n > 1) facts.push(`a square with a side of ${side}`)
  const row = Math.round((Math.sqrt(8 * n + 1) - 1) / 2)
  if ((row * (row + 1)) / 2 === n && n > 1) facts.push(`the sum of all numbers up to ${row}`)
  if (isFibonacci(n) && n > 3) facts.push('a number of Fibonacci')
  if (n > 10 && `${n}` === `${n}`.split('').toReversed().join(''))
    facts.push('the same when it is read backwards')
  return facts.length === 0 ? '' : `It is ${facts.join(', and ')}.`
}

function ofBinary(n: number): string {
  const bits = n.toString(2)
  const ones = bits.replaceAll('0', '').length
  return `In binary it is ${bits}, with ${ones === 1 ? 'a single one' : `${ones} ones`}.`
}

function primeFactors(n: number): number[] {
  const factors: number[] = []
  let rest = n
  for (let prime = 2; prime * prime <= rest; prime++) {
    while (rest % prime === 0) {
      factors.push(prime)
      rest /= prime
    }
  }
  return rest > 1 ? [...factors, rest] : factors
}

function divisorsOf(n: number): number[] {
  return Array.from({ length: n }, (_, index) => index + 1).filter((each) => n % each === 0)
}

function isFibonacci(n: number): boolean {
  let [a, b] = [1, 1]
  while (b < n) [a, b] = [b, a + b]
  return b === n
}
