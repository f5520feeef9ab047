// Checks the installed dependencies for known vulnerabilities:
//
//     node scripts/audit.mjs [--required]
//
// A registry without audits (most mirrors) is only noted; with --required, for releases, it is a failure.
import { spawnSync } from 'node:child_process'

const isRequired = process.argv.includes('--required')
const args = ['audit', '--omit=dev', '--audit-level=high', '--json']
const { stdout, status } = spawnSync('npm', args, { encoding: 'utf8' })
const { vulnerabilities, message, error } = reportOf(stdout)

if (vulnerabilities !== undefined) {
  for (const { name, severity, fixAvailable } of Object.values(vulnerabilities)) {
    console.log(`audit: ${name} is ${severity}${fixAvailable ? '; a newer version is not' : ''}`)
  }
  if (status === 0) console.log('audit: nothing of high or critical severity is known')
  process.exitCode = status ?? 1
} else if (message !== undefined) {
  console.log(`audit: not checked, the registry cannot be asked: ${message}`)
  process.exitCode = isRequired ? 1 : 0
} else {
  console.log(`audit: npm gave no report: ${error?.summary ?? 'it said nothing'}`)
  process.exitCode = 1
}

/**
 * @typedef {object} Vulnerability
 * @property {string} name
 * @property {string} severity
 * @property {unknown} fixAvailable
 *
 * @typedef {object} Report
 * @property {string} [message] of the registry
 * @property {{ summary?: string }} [error] of npm itself
 * @property {Record<string, Vulnerability>} [vulnerabilities]
 */

/** @param {string} text @returns {Report} */
function reportOf(text) {
  try {
    return JSON.parse(text)
  } catch {
    return {} // npm failed without a report
  }
}
