import { jsonLine } from '@turnstream/core/internal/protocol/json'
import { type Command, defineCommand, EXIT, parseChoice } from './command.ts'

const SHELLS = ['bash', 'zsh', 'fish'] as const

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript }

/** Creates the command for a table of commands, which may include itself. */
export function createCompletions(commands: () => readonly Command[]): Command {
  return defineCommand({
    name: 'completions',
    summary: 'print a shell completion script',
    usage: ['turnstream completions bash | zsh | fish', 'turnstream completions --json'],
    about: `In ~/.bashrc            source <(turnstream completions bash)
In ~/.zshrc             source <(turnstream completions zsh), after compinit
In config.fish          turnstream completions fish | source`,
    options: { json: { about: 'print commands and options as one JSON object: {"commands"}' } },
    words: { takes: 'one shell', min: 0, max: 1, choices: SHELLS },
    examples: ['turnstream completions bash > turnstream.bash', 'turnstream completions --json'],
    exitCodes: '0 done · 2 usage error',
    async run({ values, words: [name] }, { write }) {
      const table = commands().map(toCompletion)
      const isJson = values.json && name === undefined
      const script = () => SCRIPTS[parseChoice('completions', name, SHELLS)](table)
      await write(isJson ? jsonLine({ commands: table }) : script())
      return EXIT.done
    },
  })
}

export type Completion = ReturnType<typeof toCompletion>

/** `words` are the choices of the first argument; choices are empty for a file or free text. */
function toCompletion(command: Command) {
  const { name, summary, options, furtherOptions, words } = command
  const all = Object.entries({ ...options, ...furtherOptions })
  const flags = all.map(([option, { value, choices = [] }]) => ({
    flag: `--${option}`,
    takesValue: value !== undefined,
    choices,
  }))
  const help = { flag: '--help', takesValue: false, choices: [] }
  return { name, summary, words: words?.choices ?? [], options: [...flags, help] }
}

const GLOBAL_FLAGS = ['--help', '--version'] as const

function firstWords(table: readonly Completion[]): string[] {
  return [...new Set(table.map(({ name }) => name.split(' ', 1)[0] ?? '')), ...GLOBAL_FLAGS]
}

/** The verbs of commands with two words, such as `cassette record`, by the first word. */
function verbsByWord(table: readonly Completion[]): Map<string, string[]> {
  const verbs = new Map<string, string[]>()
  for (const { name } of table) {
    const [word = '', verb] = name.split(' ')
    if (verb !== undefined) verbs.set(word, [...(verbs.get(word) ?? []), verb])
  }
  return verbs
}

/** Completes the verb, or sets `command` to both words and `at` to the position after the first. */
function verbCases(table: readonly Completion[], assign: Assign): string {
  const lines = [...verbsByWord(table)].map(
    ([word, verbs]) =>
      `    ${word}) if (( at == 2 )); then ${assign(verbs)}; else command+=" $second"; (( at -= 1 )); fi ;;`,
  )
  return lines.join('\n')
}

type Assign = (words: readonly string[]) => string

/** The cases of an option that takes a value: a fixed name or a file. */
function valueCases(table: readonly Completion[], assign: Assign): string {
  const lines = table.flatMap(({ name, options }) =>
    options
      .filter(({ takesValue }) => takesValue)
      .map(({ flag, choices }) => `      '${name} ${flag}') ${assign(choices)} ;;`),
  )
  return lines.join('\n')
}

/** The cases of a first word, which is at position 2, and of a flag. `noDash` is a glob. */
function wordCases(table: readonly Completion[], assign: Assign, noDash: string): string {
  const lines = table.flatMap(({ name, words, options }) => {
    const at = `${name} 2 `
    const first = `        '${at}'${noDash}*|'${at}') ${assign(words)} ;;`
    const flags = `        '${name} '*' -'*) ${assign(options.map(({ flag }) => flag))} ;;`
    return words.length === 0 ? [flags] : [first, flags]
  })
  return lines.join('\n')
}

/** The part that bash and zsh have in common: sets `found` for the word at `at`. */
function cases(table: readonly Completion[], assign: Assign, noDash: string): string {
  return `  if (( at == 1 )); then
    ${assign(firstWords(table))}
  else
    case $command in
${verbCases(table, assign)}
    esac
    case "$command $before" in
${valueCases(table, assign)}
      *) case "$command $at $word" in
${wordCases(table, assign, noDash)}
      esac ;;
    esac
  fi`
}

/** bash falls back to file names (`-o default`). */
function bashScript(table: readonly Completion[]): string {
  return `# bash completion for turnstream. In ~/.bashrc: source <(turnstream completions bash)
_turnstream() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} found=''
  local command=\${COMP_WORDS[1]} second=\${COMP_WORDS[2]} at=$COMP_CWORD
${cases(table, (words) => `found='${words.join(' ')}'`, '[!-]')}
  COMPREPLY=($(compgen -W "$found" -- "$word"))
}
complete -o default -F _turnstream turnstream
`
}

/** zsh counts words from 1, `at` as bash does. Works in `fpath` and with `source`. */
function zshScript(table: readonly Completion[]): string {
  return `#compdef turnstream
# zsh completion for turnstream. In ~/.zshrc, after compinit: source <(turnstream completions zsh)
_turnstream() {
  local word=$words[CURRENT] before=$words[CURRENT-1]
  local command=$words[2] second=$words[3] at=$(( CURRENT - 1 ))
  local -a found
${cases(table, (words) => `found=(${words.join(' ')})`, '[^-]')}
  if (( $#found )); then compadd -- $found; else _files; fi
}
if [[ $funcstack[1] == _turnstream ]]; then _turnstream "$@"; else compdef _turnstream turnstream; fi
`
}

function fishScript(table: readonly Completion[]): string {
  const first = 'complete -c turnstream -n __fish_use_subcommand'
  const verbs = verbsByWord(table)
  const commands = table.map(({ name, summary }) => {
    const [word = '', verb] = name.split(' ')
    const isNext = `${hasSeen(word)}; and ${hasNotSeen(verbs.get(word) ?? [])}`
    const start = verb === undefined ? first : `complete -c turnstream -n ${quoted(isNext)}`
    return `${start} -f -a ${verb ?? word} -d ${quoted(summary)}`
  })
  const lines = [
    '# fish completion for turnstream. In config.fish: turnstream completions fish | source',
    'complete -c turnstream -e',
    ...GLOBAL_FLAGS.map((flag) => `${first} -l ${flag.slice(2)}`),
    ...[...verbs.keys()].map((word) => `${first} -f -a ${word}`),
    ...commands,
    ...table.flatMap((each) => fishLines(each, [...verbs.keys()])),
  ]
  return `${lines.join('\n')}\n`
}

const hasSeen = (word: string) => `__fish_seen_subcommand_from ${word}`
const hasNotSeen = (words: readonly string[]) => `not ${hasSeen(words.join(' '))}`

/** `groups` are the first words of commands with two. */
function fishLines({ name, words, options }: Completion, groups: readonly string[]): string[] {
  const [word = '', verb] = name.split(' ')
  const seen = `${hasSeen(word)}; and ${verb === undefined ? hasNotSeen(groups) : hasSeen(verb)}`
  const isFirst = quoted(`${seen}; and ${hasNotSeen(words)}`)
  const flags = options.map(({ flag, takesValue, choices }) => {
    // `-x` takes a value that is not a file, `-r` one that may be.
    const value = choices.length === 0 ? ' -r' : ` -x -a ${quoted(choices.join(' '))}`
    const option = `complete -c turnstream -n ${quoted(seen)} -l ${flag.slice(2)}`
    return takesValue ? `${option}${value}` : option
  })
  if (words.length === 0) return flags
  return [`complete -c turnstream -n ${isFirst} -f -a ${quoted(words.join(' '))}`, ...flags]
}

const quoted = (text: string): string => `'${text.replaceAll(/['\\]/g, String.raw`\$&`)}'`
