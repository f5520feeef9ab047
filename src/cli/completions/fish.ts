import { type Completion, GLOBAL_FLAGS, type OptionCompletion } from './table.ts'

export function fishCompletions(table: readonly Completion[]): string {
  const lines = [
    '# fish completion for turnstream. In config.fish: turnstream completions fish | source',
    'complete -c turnstream -e',
    ...GLOBAL_FLAGS.map((flag) => `${AT_FIRST} -l ${nameOf(flag)}`),
    ...table.map(({ name, summary }) => `${AT_FIRST} -f -a ${name} -d ${quoted(summary)}`),
    ...table.flatMap((completion) => [...wordLines(completion), ...optionLines(completion)]),
  ]
  return `${lines.join('\n')}\n`
}

const AT_FIRST = 'complete -c turnstream -n __fish_use_subcommand'

function wordLines({ name, words }: Completion): string[] {
  if (words.length === 0) return []
  const list = words.join(' ')
  const isFirst = `__fish_seen_subcommand_from ${name}; and not __fish_seen_subcommand_from ${list}`
  return [`complete -c turnstream -n ${quoted(isFirst)} -f -a ${quoted(list)}`]
}

function optionLines({ name, options }: Completion): string[] {
  const condition = quoted(`__fish_seen_subcommand_from ${name}`)
  return options.map(
    (option) =>
      `complete -c turnstream -n ${condition} -l ${nameOf(option.flag)}${valueOf(option)}`,
  )
}

/** `-x` takes a value that is no file, `-r` one that may be. */
function valueOf({ takesValue, choices }: OptionCompletion): string {
  if (!takesValue) return ''
  return choices.length === 0 ? ' -r' : ` -x -a ${quoted(choices.join(' '))}`
}

function nameOf(flag: string): string {
  return flag.replace(/^--/, '')
}

function quoted(text: string): string {
  return `'${text.replaceAll(/['\\]/g, String.raw`\$&`)}'`
}
