import { statSync } from 'node:fs'
import { isAbsolute } from 'node:path'
import { invalidOption } from '@turnstream/core/internal/formats/vendor-request'

/** What commands of the agent may do, by codex's own names. */
export const SANDBOXES = ['read-only', 'workspace-write', 'danger-full-access'] as const
export type AgentSandbox = (typeof SANDBOXES)[number]

/** Who decides about commands that need approval: codex declines (`never`), we do (`refuse`), or a client (`ask`). */
export const APPROVALS = ['never', 'refuse', 'ask'] as const
export type AgentApprovals = (typeof APPROVALS)[number]

/** How codex works with its own tools: commands and patches. */
export interface CodexAgent {
  /** Absolute path of the directory in which it works. All turns of all callers share it. */
  readonly directory: string
  readonly sandbox: AgentSandbox
  /** `never` by default. */
  readonly approvals?: AgentApprovals
  /** Stored output of one command or diff of one file, in characters. 100,000 by default. */
  readonly maxOutputChars?: number
}

/** Throws OPTION_INVALID if codex cannot run with these settings. */
export function checkAgent({ directory, sandbox, approvals }: CodexAgent): void {
  if (!isAbsolute(directory) || !isDirectory(directory)) {
    throw invalidOption(
      'agent',
      `directory must be the absolute path of an existing directory, got ${directory}`,
    )
  }
  if (hasNeedlessApprovals(sandbox, approvals))
    throw invalidOption('agent', `approvals: ${NEEDLESS_APPROVALS}`)
}

/** Whether approvals would never be requested: without a sandbox, codex requests none. */
export function hasNeedlessApprovals(
  sandbox: AgentSandbox,
  approvals: AgentApprovals = 'never',
): boolean {
  return sandbox === 'danger-full-access' && approvals !== 'never'
}

export const NEEDLESS_APPROVALS = 'with danger-full-access codex needs no approvals; use "never"'

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}

/** The approval policy of codex. `on-request`: the model requests what the sandbox does not allow. */
export function approvalPolicy({ approvals = 'never' }: CodexAgent): string {
  return approvals === 'never' ? 'never' : 'on-request'
}
