import { TurnstreamError } from '../protocol/errors.ts'
import type { ProviderRequest } from './provider.ts'

type ToolChoice = NonNullable<ProviderRequest['toolChoice']>

/**
 * The choice as it may be sent: vendors refuse one where there is nothing to choose from. Throws when
 * it cannot be honoured.
 */
export function toolChoiceOf({ tools = [], toolChoice }: ProviderRequest): ToolChoice | undefined {
  if (toolChoice === undefined || tools.length > 0) return checked(tools, toolChoice)
  if (toolChoice === 'auto' || toolChoice === 'none') return undefined
  throw new TurnstreamError('OPTION_INVALID', 'toolChoice: there are no tools to choose from')
}

function checked(
  tools: NonNullable<ProviderRequest['tools']>,
  choice: ToolChoice | undefined,
): ToolChoice | undefined {
  if (typeof choice !== 'object' || tools.some(({ name }) => name === choice.name)) return choice
  throw new TurnstreamError('OPTION_INVALID', `toolChoice: there is no tool ${choice.name}`)
}
