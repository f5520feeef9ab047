import { defaultServerConditions } from 'vite'
import { defineConfig } from 'vitest/config'

/** Our packages are tested from their sources. */
const conditions = ['@turnstream/source', ...defaultServerConditions]

/** Files that replace a module or a global, which others in their process would see. */
const ISOLATED = [
  'test/bench/measure.test.ts',
  'packages/turnstream/test/clients/ui/**/*.test.ts',
  'packages/client/test/react/**/*.test.ts',
  'test/scripts/**/*.test.ts',
  'packages/turnstream/test/server/auth/key-ring.test.ts',
  'packages/conformance/test/fake-clock.test.ts',
]

/** `npm test` leaves out slow tests. */
const isQuick = process.argv.some((argument) => argument.includes('!slow'))

export default defineConfig({
  ssr: { resolve: { conditions } },
  test: {
    // Most files share a process: loading the same modules for each of them took more time than the tests.
    projects: [
      {
        extends: true,
        test: {
          name: 'shared',
          include: ['test/**/*.test.ts', 'packages/*/test/**/*.test.ts'],
          exclude: [...ISOLATED, '**/node_modules/**'],
          isolate: false,
        },
      },
      {
        extends: true,
        test: { name: 'isolated', include: ISOLATED },
      },
    ],
    globalSetup: 'test/global-setup.ts',
    setupFiles: ['test/watchdog.ts', 'test/seed.ts'],
    restoreMocks: true,
    // Read by test/case-count.ts.
    env: isQuick ? { TEST_TIER: 'quick' } : {},
    // `npm test` leaves these out, `npm run test:full` runs them. A file of them says `@module-tag slow`.
    tags: [
      { name: 'slow', description: 'Takes seconds, and a faster test covers the essentials.' },
    ],
    // Many tests wait for processes that they started, so use all cores. The default is one less.
    maxWorkers: '100%',
    // Tests that run hundreds of cases take long where others work, too. What hangs, hangs longer than this.
    testTimeout: 20_000,
    hookTimeout: 30_000,
    // The default of a second is short on a busy machine.
    expect: { poll: { timeout: 15_000 } },
    // A rejection that nobody handles fails the run, whichever test caused it.
    dangerouslyIgnoreUnhandledErrors: false,
    coverage: {
      provider: 'v8',
      include: ['packages/*/src/**'],
      // The command line is run as a child process, where coverage cannot see it.
      exclude: ['packages/turnstream/src/cli/**'],
      thresholds: { lines: 98, functions: 98, branches: 95, statements: 98 },
    },
  },
})
