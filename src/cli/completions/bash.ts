import { type Completion, flagsOf, GLOBAL_FLAGS } from './table.ts'

/** Where nothing of ours fits, bash goes on with the names of files (`-o default`). */
export function bashCompletions(table: readonly Completion[]): string {
  const names = table.map(({ name }) => name).join(' ')
  return `# bash completion for turnstream. In ~/.bashrc: source <(turnstream completions bash)
_turnstream() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} found=''
  if (( COMP_CWORD == 1 )); then
    found='${names} ${GLOBAL_FLAGS.join(' ')}'
  else
    case "\${COMP_WORDS[1]} $before" in
${table.flatMap(valueCases).join('\n')}
      *) case "\${COMP_WORDS[1]} $COMP_CWORD $word" in
${table.flatMap(wordCases).join('\n')}
      esac ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$found" -- "$word"))
}
complete -o default -F _turnstream turnstream
`
}

/** What may follow an option that takes a value: one of a few, or a file. */
function valueCases({ name, options }: Completion): string[] {
  return options
    .filter(({ takesValue }) => takesValue)
    .map(({ flag, choices }) => `      '${name} ${flag}') found='${choices.join(' ')}' ;;`)
}

function wordCases(completion: Completion): string[] {
  const { name, words } = completion
  const first = `        '${name} 2 '[!-]*|'${name} 2 ') found='${words.join(' ')}' ;;`
  return [
    ...(words.length === 0 ? [] : [first]),
    `        '${name} '*' -'*) found='${flagsOf(completion)}' ;;`,
  ]
}
