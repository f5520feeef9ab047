import { parentPort } from 'node:worker_threads'
import type { CheckRequest, CheckResult } from './arguments-checker.ts'
import { ArgumentsSchema } from './tool-arguments.ts'

/* Checks arguments in a thread of its own, which `ArgumentsChecker` ends when a check takes too long. */

const MAX_SCHEMAS = 100
const schemas = new Map<string, ArgumentsSchema>()

function schemaOf(text: string): ArgumentsSchema {
  const schema = schemas.get(text) ?? new ArgumentsSchema(text)
  if (schemas.size >= MAX_SCHEMAS) schemas.clear()
  schemas.set(text, schema)
  return schema
}

function check({ schema, args }: CheckRequest): CheckResult {
  try {
    return { fault: schemaOf(schema).findFault(JSON.parse(args), args.length) }
  } catch (error) {
    return { error: error instanceof Error ? error.message : 'an unknown error' }
  }
}

const post = (message: 'ready' | CheckResult): void => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage(message)
}

parentPort?.on('message', (request: CheckRequest) => post(check(request)))
post('ready')
