import { expect, test } from 'vitest'
import { POSTCARD_TOOL } from '../../src/cli/demo/tool-models.ts'
import { ToolRegistry } from '../../src/turns/tools.ts'
import { call, end } from './payloads.ts'
import { newRig, outputsOf, puppet, tick } from './rig.ts'

const { name, parameters, onlyFor: _, ...rest } = POSTCARD_TOOL
const settings = { tools: [{ name, parameters }] }

test("a client's tool takes the place of a server tool of one provider", () => {
  const tools = new ToolRegistry([POSTCARD_TOOL]).forTurn(settings, 'scripted')
  expect(() => tools.check(settings)).not.toThrow()
  expect(tools.get(name)).toBeUndefined()
  expect(tools.names.has(name)).toBe(false)
})

test('a server tool of one provider remains for other requests to it', () => {
  const tools = new ToolRegistry([POSTCARD_TOOL])
  expect(tools.forTurn({}, 'scripted').get(name)).toBe(POSTCARD_TOOL)
  expect(tools.forTurn({}, 'openai').get(name)).toBeUndefined()
})

test("a client's tool with the name of a server tool of all providers is refused", () => {
  const tools = new ToolRegistry([{ ...rest, name, parameters }]).forTurn(settings, 'openai')
  expect(() => tools.check(settings)).toThrow(/is a tool of this server/)
})

/** The card of a call to the demo tool that nobody offered, by a model of a provider. */
async function postcardOf(providerId: string) {
  const args = { arguments: '{"to":"Lisbon","text":"Hi"}' }
  const rounds = [[...call('1', name, args), end('tool_calls')], [end()]]
  const rig = newRig({ provider: puppet(rounds, providerId), tools: [POSTCARD_TOOL] })
  await rig.submit()
  await tick(rig.clock)
  const card = (await outputsOf(rig.log)).find(({ type }) => type === 'tool_call')
  return { rig, card }
}

test('a real model that calls the demo tool leaves the call to the client', async () => {
  const { rig, card } = await postcardOf('openai')
  expect(rig.runner.running).toBe(0)
  expect(card).toMatchObject({ status: 'create', toolName: name })
  expect(card).not.toHaveProperty('approval')
  expect((await outputsOf(rig.log)).at(-1)).toMatchObject({ type: 'turn_complete' })
  expect(rig.provider.calls).toHaveLength(1)
})

test('a scripted model that calls the demo tool asks for approval', async () => {
  const { rig, card } = await postcardOf('scripted')
  expect(card).toMatchObject({ approval: { status: 'requested' } })
  await rig.runner.shutdown(0)
})
