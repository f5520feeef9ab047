/** What a public signature mentions can be imported, too: nobody needs `Parameters<typeof …>` to name it. */
import { expect, test } from 'vitest'
import { publicNames, typesMentionedBy } from './public-types.ts'

const ENTRIES = [
  'packages/turnstream/src/index.ts',
  'packages/turnstream/src/server.ts',
  'packages/conformance/src/index.ts',
]

/** Mentioned in public signatures, but nothing that a user has to name. */
const OPAQUE: ReadonlySet<string> = new Set([
  'Admit', // a callback, written where it is passed
  'ApprovalRequest', // made by the gateway
  'Aliases', // of methods that only adapters call
  'CallFields',
  'GatewayEnv', // what the middleware of the gateway tells its routes
  'Head', // what a ReducerState is made of
  'IdIndex',
  'Items',
  'MemoryTurn', // of protected methods of a log
  'Payloads', // of which `StreamEventPayload` names each
  'SnapshotFields', // what each snapshot has
  'Settle', // of a method that only the processor calls
  'TurnEnd', // what TurnComplete and TurnError have
  'Tenants', // of a constructor that only the log itself calls
])

test('every type that a public signature mentions is exported', () => {
  const exported = publicNames(ENTRIES)
  const isExported = (file: string, name: string) =>
    exported.some((each) => each.file === file && each.name === name)
  const missing = exported.flatMap(({ file, name }) =>
    typesMentionedBy(file, name)
      .filter((type) => !isExported(type.file, type.name) && !OPAQUE.has(type.name))
      .map((type) => `${name} mentions ${type.name} of ${type.file}`),
  )
  expect(missing).toEqual([])
})

test.each([
  ['a parameter', 'export function f(a: A): void {}\ninterface A {}'],
  ['a result', 'export function f(): Promise<A[]> {}\ninterface A {}'],
  ['a field', 'export interface f { a?: A }\ninterface A {}'],
  ['a base', 'export interface f extends Omit<A, "b"> {}\ninterface A {}'],
  ['a public member', 'export class f { get a(): A {} }\ninterface A {}'],
  ['an imported type', "import type { A } from './a.ts'\nexport type f = A | 1"],
])('the check notices %s', (_what, text) => {
  expect(typesMentionedBy('src/x.ts', 'f', text).map(({ name }) => name)).toEqual(['A'])
})

test.each([
  ['a private member', 'export class f { #a: A; private b: A }\ninterface A {}'],
  ['a body', 'export function f(): void { let a: A }\ninterface A {}'],
  ['a type parameter', 'export function f<A>(a: A): A {}'],
  ['a type of a package', "import type { A } from 'a'\nexport type f = A"],
])('the check ignores %s', (_what, text) => {
  expect(typesMentionedBy('src/x.ts', 'f', text)).toEqual([])
})
