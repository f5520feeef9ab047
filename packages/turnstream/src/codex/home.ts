import { chmodSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { optionInvalid } from '@turnstream/core/internal/protocol/errors'
import { catalogOf } from './catalog.ts'
import { type CodexConfig, codexSettings } from './config.ts'
import { syncDirectory, writeDurably } from './durable-file.ts'
import { copyLogin, keepLogin } from './login.ts'
import {
  createOwnedDirectory,
  listDirectories,
  listOrphans,
  removeDirectory,
} from './owned-directory.ts'

export interface CodexHomesOptions extends CodexConfig {
  /** Holds the homes, and the login between two of them. Created with mode 0700. */
  readonly directory: string
  readonly template?: string | undefined
}

export interface CodexHome {
  readonly home: string
  /** Options of the process. They repeat the configuration, so that it never runs with another. */
  readonly args: readonly string[]
  /** What codex reads again for each thread. */
  readonly files: readonly string[]
}

/** Files of codex's own sessions, and those by which another API or key than the configured one could be found. */
const NOT_COPIED = /^(?:config\.toml|catalog\.json|auth\.json|\.env|history\.jsonl|.*\.sqlite.*)$/
const MAX_TEMPLATE_FILE_BYTES = 1024 * 1024

const CATALOG = 'catalog.json'
const READY = 'home-'
const UNFINISHED = 'new-'

/** The homes of codex. Each belongs to one process, is complete when it appears, and is not changed afterwards. */
export class CodexHomes {
  readonly #options: CodexHomesOptions

  constructor(options: CodexHomesOptions) {
    this.#options = options
  }

  create(): CodexHome {
    const { directory, template, modelProvider, agent } = this.#options
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    chmodSync(directory, 0o700)
    for (const prefix of [READY, UNFINISHED]) {
      for (const orphan of listOrphans(directory, prefix)) this.remove(orphan)
    }
    const unfinished = createOwnedDirectory(directory, UNFINISHED)
    const home = join(directory, basename(unfinished).replace(UNFINISHED, READY))
    try {
      if (template !== undefined) copyTemplate(template, unfinished)
      if (modelProvider.usesLogin) {
        const running = listDirectories(directory, READY)
        copyLogin(
          [...(template === undefined ? [] : [template]), directory, ...running],
          unfinished,
        )
      }
      const args = this.#write(unfinished, home)
      syncDirectory(unfinished)
      renameSync(unfinished, home)
      syncDirectory(directory)
      const catalog = agent === undefined ? [join(home, CATALOG)] : []
      return { home, args, files: [workDirectory(home), ...catalog] }
    } catch (error) {
      removeDirectory(unfinished)
      throw error
    }
  }

  /** Removes the home of a process that is gone. A login that it renewed stays for the next one. */
  remove(home: string): void {
    const { modelProvider, directory } = this.#options
    if (modelProvider.usesLogin) keepLogin(home, directory)
    removeDirectory(home)
  }

  #write(unfinished: string, home: string): string[] {
    const { models, agent } = this.#options
    mkdirSync(workDirectory(unfinished), { mode: 0o700 })
    if (agent === undefined) writeDurably(join(unfinished, CATALOG), catalogOf(models))
    const settings = codexSettings(this.#options, join(home, CATALOG))
    const lines = settings.map(([key, value]) => `${key} = ${value}\n`)
    writeDurably(join(unfinished, 'config.toml'), lines.join(''))
    return settings.flatMap(([key, value]) => ['-c', `${key}=${value}`])
  }
}

function copyTemplate(template: string, home: string): void {
  for (const name of namesIn(template)) {
    const from = join(template, name)
    if (statSync(from).size > MAX_TEMPLATE_FILE_BYTES) continue
    writeDurably(join(home, name), readFileSync(from))
  }
}

function namesIn(template: string): string[] {
  try {
    const files = readdirSync(template, { withFileTypes: true }).filter((entry) => entry.isFile())
    return files.map(({ name }) => name).filter((name) => !NOT_COPIED.test(name))
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw optionInvalid(`the template of CODEX_HOME is unreadable: ${reason}`)
  }
}

/** An empty directory: the working directory of the app-server and of its threads. */
export function workDirectory(home: string): string {
  return join(home, 'work')
}
