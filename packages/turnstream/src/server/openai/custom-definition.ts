export const MAX_DESCRIPTION_CHARS = 20_000

/** The function of a custom tool. Only OpenAI's own models know grammars. Others read it in the description. */
export function customDefinition(name: string, about: string, grammar: unknown) {
  const rule =
    typeof grammar === 'string' ? `\n\nThe input must match this grammar:\n${grammar}` : ''
  return {
    name,
    description: `${about}${rule}`.slice(0, MAX_DESCRIPTION_CHARS),
    parameters: {
      type: 'object',
      properties: { input: { type: 'string' } },
      required: ['input'],
      additionalProperties: false,
    },
  }
}
