// Checks that commit titles are conventional: `type(scope): imperative`, at most 72 characters.
// Older commits, and merges, are not checked. In a shallow clone only the available commits are checked.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** The last commit before the rule. */
const SINCE = 'caf923cb2508af34074f02875ad2b93c9d272865'

const TYPES = 'build|chore|ci|docs|feat|fix|perf|refactor|revert|style|test'
const FORM = new RegExp(`^(?:${TYPES})(?:\\([a-z0-9-]+\\))?!?: (\\S.*)$`)
const MAX_LENGTH = 72

/** Common verbs in a form that is not the imperative. */
const NOT_IMPERATIVE =
  /^(?:(?:add|clean|correct|document|fix|implement|refactor|support|test)(?:s|es|ed|ing)|(?:chang|improv|introduc|mak|merg|mov|remov|renam|replac|rewrit|updat|us)(?:es|ed|ing)|made|rewrote|wrote)\b/

/**
 * @param {string} title
 * @returns {string | undefined} what is wrong with it
 */
export function titleFault(title) {
  const [, summary] = FORM.exec(title) ?? []
  if (summary === undefined)
    return `use "type(scope): summary", with a type of ${TYPES.replaceAll('|', ', ')}`
  if (title.length > MAX_LENGTH) return `${title.length} characters: shorten it to ${MAX_LENGTH}`
  if (/^\p{Lu}\p{Ll}/u.test(summary)) return 'start the summary with a lower-case letter'
  if (summary.endsWith('.')) return 'remove the full stop'
  if (NOT_IMPERATIVE.test(summary)) return 'use the imperative: "add", not "added" or "adds"'
  return undefined
}

/**
 * @param {string} folder a work tree
 * @param {string} since the commit after which titles are checked
 * @returns {{ checked: number, faults: string[] }}
 */
export function checkTitles(folder, since) {
  /** @param {string[]} args */
  const git = (...args) => spawnSync('git', args, { cwd: folder, encoding: 'utf8' })
  const isKnown = git('cat-file', '-e', `${since}^{commit}`).status === 0
  const range = isKnown ? [`${since}..HEAD`] : ['--max-count=1', 'HEAD']
  const { stdout } = git('log', '--no-merges', '--format=%h%x09%s', ...range)
  const commits = stdout.split('\n').filter(Boolean)
  const faults = commits.flatMap((line) => {
    const [hash = '', title = ''] = line.split('\t')
    const fault = titleFault(title)
    return fault === undefined ? [] : [`${hash} "${title}": ${fault}`]
  })
  return { checked: commits.length, faults }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { checked, faults } = checkTitles(process.cwd(), SINCE)
  for (const fault of faults) console.error(fault)
  if (faults.length > 0) {
    console.error('Reword these commits with "git rebase -i". CONTRIBUTING.md has the rules.')
    process.exitCode = 1
  } else console.log(`${checked} commit titles checked`)
}
