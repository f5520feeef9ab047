import { type Completion, flagsOf, GLOBAL_FLAGS } from './table.ts'

/** The same cases as for bash. It serves as a file of `fpath` and for `source`. */
export function zshCompletions(table: readonly Completion[]): string {
  const names = table.map(({ name }) => name).join(' ')
  return `#compdef turnstream
# zsh completion for turnstream. In ~/.zshrc, after compinit: source <(turnstream completions zsh)
_turnstream() {
  local word=$words[CURRENT] before=$words[CURRENT-1]
  local -a found
  if (( CURRENT == 2 )); then
    found=(${names} ${GLOBAL_FLAGS.join(' ')})
  else
    case "$words[2] $before" in
${table.flatMap(valueCases).join('\n')}
      *) case "$words[2] $CURRENT $word" in
${table.flatMap(wordCases).join('\n')}
      esac ;;
    esac
  fi
  if (( $#found )); then compadd -- $found; else _files; fi
}
if [[ $funcstack[1] == _turnstream ]]; then _turnstream "$@"; else compdef _turnstream turnstream; fi
`
}

function valueCases({ name, options }: Completion): string[] {
  return options
    .filter(({ takesValue }) => takesValue)
    .map(({ flag, choices }) => `      '${name} ${flag}') found=(${choices.join(' ')}) ;;`)
}

/** zsh counts words from 1, the name of the program among them. */
function wordCases(completion: Completion): string[] {
  const { name, words } = completion
  const first = `        '${name} 3 '[^-]*|'${name} 3 ') found=(${words.join(' ')}) ;;`
  return [
    ...(words.length === 0 ? [] : [first]),
    `        '${name} '*' -'*) found=(${flagsOf(completion)}) ;;`,
  ]
}
