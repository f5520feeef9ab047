// Adds up the JSON reports of vitest in a folder: a line for each, then the plain closing line
// `<n> passed, <n> failed`.
//
//     node scripts/sum-test-results.mjs <folder>
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const folder = process.argv[2] ?? '.'
const reports = readdirSync(folder).filter((name) => name.endsWith('.json'))
const total = { passed: 0, failed: 0 }

for (const name of reports.toSorted()) {
  const report = JSON.parse(readFileSync(join(folder, name), 'utf8'))
  /** @type {{ status: string, assertionResults: unknown[] }[]} */
  const files = report.testResults
  // A file that could not be loaded counts as a failure without tests.
  const broken = files.filter((file) => file.status === 'failed' && !file.assertionResults.length)
  const passed = Number(report.numPassedTests)
  const failed = Number(report.numFailedTests) + broken.length
  console.log(`${name.replace(/\.json$/, '')}: ${passed} passed, ${failed} failed`)
  total.passed += passed
  total.failed += failed
}

if (reports.length === 0) console.log('no test was run')
else console.log(`${total.passed} passed, ${total.failed} failed`)
