import { defineConfig } from 'vitest/config'

/** Folders whose files share a process and its modules. Loading them once saves a third of a second per file. */
const SHARED = [
  'test/{adapters,async,client,dialects,processor,protocol,reducer,sse,turns}/**/*.test.ts',
  'test/log/*.test.ts',
  'test/server/{attacks,auth,limits,metrics,models,openai,streams,tenants}/**/*.test.ts',
]

/** Files of these folders that replace a module, which the others would see. */
const MOCKING = ['test/server/auth/key-ring.test.ts']

export default defineConfig({
  test: {
    projects: [
      {
        extends: true,
        test: { name: 'shared', include: SHARED, exclude: MOCKING, isolate: false },
      },
      {
        extends: true,
        test: {
          name: 'isolated',
          include: ['test/**/*.test.ts'],
          exclude: [...SHARED, '**/node_modules/**'],
        },
      },
      {
        extends: true,
        test: { name: 'mocking', include: MOCKING },
      },
    ],
    globalSetup: 'test/global-setup.ts',
    setupFiles: ['test/watchdog.ts'],
    restoreMocks: true,
    // `npm test` leaves these out, `npm run test:full` runs them. A file of them says `@module-tag slow`.
    tags: [
      { name: 'slow', description: 'Takes seconds, and a faster test covers the essentials.' },
    ],
    // Many tests wait for processes that they started, so use all cores. The default is one less.
    maxWorkers: '100%',
    // Tests that run hundreds of cases take long where others work, too. What hangs, hangs longer than this.
    testTimeout: 20_000,
    hookTimeout: 30_000,
    // A rejection that nobody handles fails the run, whichever test caused it.
    dangerouslyIgnoreUnhandledErrors: false,
    coverage: {
      provider: 'v8',
      include: ['src/**'],
      // The command line is run as a child process, where coverage cannot see it.
      exclude: ['src/cli/**'],
      thresholds: { lines: 98, functions: 98, branches: 95, statements: 98 },
    },
  },
})
