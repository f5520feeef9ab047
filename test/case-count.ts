/**
 * How many random cases to try of `all`: `npm run test:full` tries all of them, `npm test` a fifth.
 * A single file run by `npx vitest` tries all.
 */
export function caseCount(all: number): number {
  return process.env['TEST_TIER'] === 'quick' ? Math.ceil(all / 5) : all
}
