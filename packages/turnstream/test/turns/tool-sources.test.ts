import { expect, test } from 'vitest'
import type { Tool } from '../../src/server.ts'
import { ServerTools } from '../../src/turns/tool-sources.ts'
import { call, end } from './payloads.ts'
import { newRig, storyOf } from './rig.ts'
import { tool } from './some-tools.ts'

/** A source whose tools the test replaces. */
function source(...tools: Tool[]) {
  return { name: 'source', isConnected: true, tools }
}

const answer = (text: string) => () => text

test('tools of a source are offered as soon as it lists them', () => {
  const later = source()
  const tools = new ServerTools([tool('clock', answer('noon')), later], () => expect.unreachable())
  expect([...tools.current().names]).toEqual(['clock'])
  later.tools = [tool('source__echo', answer('hi'))]
  expect([...tools.current().names]).toEqual(['clock', 'source__echo'])
  expect(tools.current()).toBe(tools.current())
})

test('a turn keeps the tools that it started with', async () => {
  const changing = source(tool('echo', answer('first')))
  const rig = newRig({
    tools: [changing],
    rounds: [
      ({ say, stream }) => {
        changing.tools = []
        say(...call('c', 'echo'), end())
        stream.complete()
      },
      [end()],
    ],
  })
  await rig.submit()
  await rig.settled()
  expect((await storyOf(rig.log)).join('\n')).toContain('first')
  expect(rig.provider.calls[1]?.request.tools?.map(({ name }) => name)).toEqual(['echo'])
})

test('a tool of a source gives way to one with the same name, and is reported once', () => {
  const errors: unknown[] = []
  const one = source(tool('a', answer('source')))
  const tools = new ServerTools([one, tool('a', answer('own'))], (error) => errors.push(error))
  expect(
    tools
      .current()
      .get('a')
      ?.execute({}, {} as never),
  ).toBe('own')
  one.tools = [...one.tools]
  tools.current()
  expect(errors.map(String)).toEqual([
    'TurnstreamError: Invalid option: a of source is not offered: another tool has this name',
  ])
})

test('two tools of the server with one name are refused', () => {
  const twice = [tool('a', answer('')), tool('a', answer(''))]
  expect(() => new ServerTools(twice, () => {})).toThrow('two tools have the same name')
})
