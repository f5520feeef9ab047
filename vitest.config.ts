import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: 'test/global-setup.ts',
    setupFiles: ['test/watchdog.ts'],
    restoreMocks: true,
    // Many tests wait for processes that they have started: all cores, and not one less, as is the default.
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
      thresholds: { lines: 97.5, functions: 97.5, branches: 94.5, statements: 97.5 },
    },
  },
})
