import { parseArgs } from 'node:util'
import { type Command, EXIT, parseChoice, UsageError } from '../command.ts'
import { bashCompletions } from './bash.ts'
import { fishCompletions } from './fish.ts'
import { type Completion, completionTable } from './table.ts'
import { zshCompletions } from './zsh.ts'

const HELP = `turnstream completions: what the Tab key needs to know

Usage
  turnstream completions bash | zsh | fish
  turnstream completions --json

Prints a script for the shell, made of the commands and options of this version.

Options
  --json             the commands and options as one JSON object: {"commands"}

Examples
  turnstream completions bash > turnstream.bash
  turnstream completions --json

In ~/.bashrc            source <(turnstream completions bash)
In ~/.zshrc             source <(turnstream completions zsh), after compinit
In config.fish          turnstream completions fish | source

Exit codes
  0 done · 2 the command makes no sense
`

const SHELLS = ['bash', 'zsh', 'fish'] as const

const SCRIPTS: Record<(typeof SHELLS)[number], (table: readonly Completion[]) => string> = {
  bash: bashCompletions,
  zsh: zshCompletions,
  fish: fishCompletions,
}

const OPTIONS = { json: { type: 'boolean', default: false } } as const

/** The command for a table of commands, of which it may be one itself. */
export function completionsOf(commands: () => Readonly<Record<string, Command>>): Command {
  return {
    summary: 'print a script that lets a shell complete commands and options',
    help: HELP,
    options: OPTIONS,
    words: SHELLS,
    async run(args, { write }) {
      const { values, positionals } = parseArgs({ args, allowPositionals: true, options: OPTIONS })
      const [name, ...rest] = positionals
      if (rest.length > 0) throw new UsageError('completions takes one shell')
      const table = completionTable(commands())
      const text =
        values.json && name === undefined
          ? `${JSON.stringify({ commands: table })}\n`
          : SCRIPTS[parseChoice('completions', name, SHELLS)](table)
      await write(text)
      return EXIT.done
    },
  }
}
