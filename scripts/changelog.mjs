// The part of CHANGELOG.md that belongs to a release.
//   node scripts/changelog.mjs release <version> [file]   closes "Unreleased" as that version, dated today
//   node scripts/changelog.mjs notes <version> [file]     prints the section of that version
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const HEADING = /^## \[(.+?)\]/

/**
 * @param {string} changelog
 * @param {string} version
 * @param {string} date such as 2026-01-31
 */
export function closeUnreleased(changelog, version, date) {
  if (findSection(changelog, version) !== undefined) {
    throw new Error(`CHANGELOG.md already has a section ${version}`)
  }
  const notes = findSection(changelog, 'Unreleased')
  if (notes === undefined) throw new Error('CHANGELOG.md has no section Unreleased')
  if (notes === '') throw new Error('Unreleased is empty: say what this version changes')
  return changelog.replace('## [Unreleased]', `## [Unreleased]\n\n## [${version}] - ${date}`)
}

/**
 * @param {string} changelog
 * @param {string} version
 * @returns {string | undefined} its text without the heading
 */
export function findSection(changelog, version) {
  const lines = changelog.split('\n')
  const start = lines.findIndex((line) => HEADING.exec(line)?.[1] === version)
  if (start < 0) return undefined
  const length = lines.slice(start + 1).findIndex((line) => HEADING.test(line))
  const end = length < 0 ? lines.length : start + 1 + length
  return lines
    .slice(start + 1, end)
    .join('\n')
    .trim()
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [action, version = '', file = 'CHANGELOG.md'] = process.argv.slice(2)
  const changelog = readFileSync(file, 'utf8')
  if (action === 'release') {
    const today = new Date().toISOString().slice(0, 10)
    writeFileSync(file, closeUnreleased(changelog, version, today))
  } else if (action === 'notes') {
    const notes = findSection(changelog, version)
    if (notes === undefined) throw new Error(`${file} has no section ${version}`)
    console.log(notes)
  } else throw new Error('usage: changelog.mjs release|notes <version> [file]')
}
