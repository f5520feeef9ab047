import { describe, expect, test } from 'vitest'
import { DEFAULT_TENANT } from '../../../core/src/protocol/names.ts'
import { answer, end } from './payloads.ts'
import { newRig, PROMPT, type Rig, type Round, storyOf } from './rig.ts'

const TENANTS = [DEFAULT_TENANT, 'acme', 'umbrella']

function saying(text: string): Round {
  return [...answer('a', text), end()]
}

async function shutDown({ runner, clock }: Rig): Promise<void> {
  const over = runner.shutdown(0)
  await clock.advance(0)
  await over
}

describe('W8 turns of several tenants', () => {
  test('may have the same ids at the same time, and are different turns', async () => {
    const rig = newRig({ rounds: TENANTS.map((tenant) => saying(`for ${tenant}`)) })
    const submission = { turnId: 't', runId: 'r', threadId: 'th', input: [PROMPT] }
    const submitted = TENANTS.map((tenant) => rig.runner.submit(submission, { tenant }))
    const ids = { turnId: 't', runId: 'r', threadId: 'th' }
    expect(await Promise.all(submitted)).toEqual([ids, ids, ids])
    await rig.settled()
    expect(rig.provider.calls).toHaveLength(3)
    for (const tenant of TENANTS) {
      const story = await storyOf(rig.log.ofTenant(tenant), 't')
      expect(story).toContain(`done r:1 for ${tenant}`)
    }
    expect(rig.errors).toEqual([])
  })

  test('are repeated only by their own tenant', async () => {
    const rig = newRig({ rounds: [saying('one'), saying('two')] })
    const first = { turnId: 't', input: [PROMPT] }
    await rig.runner.submit(first, { tenant: 'acme' })
    const other = { turnId: 't', input: [{ ...PROMPT, content: 'Something else' }] }
    await rig.runner.submit(other, { tenant: 'umbrella' })
    await expect(rig.runner.submit(other, { tenant: 'acme' })).rejects.toMatchObject({
      code: 'SUBMIT_CONFLICT',
    })
    expect(await rig.runner.submit(first, { tenant: 'acme' })).toMatchObject({ turnId: 't' })
    await rig.settled()
    expect(rig.provider.calls).toHaveLength(2)
  })

  test('do not keep the threads of others busy', async () => {
    const rig = newRig()
    const submission = { threadId: 'th', input: [PROMPT] }
    await rig.runner.submit(submission, { tenant: 'acme' })
    await expect(rig.runner.submit(submission, { tenant: 'acme' })).rejects.toMatchObject({
      code: 'THREAD_BUSY',
    })
    await rig.runner.submit(submission, { tenant: 'umbrella' })
    expect(rig.runner.running).toBe(2)
    await shutDown(rig)
  })

  test('get only the history of their own thread', async () => {
    const rig = newRig({ rounds: [saying('a secret'), saying('nothing'), saying('more')] })
    for (const tenant of ['acme', 'umbrella', 'acme']) {
      await rig.runner.submit({ threadId: 'th', input: [PROMPT] }, { tenant })
      await rig.settled()
    }
    const [, second, third] = rig.provider.calls.map(({ request }) => JSON.stringify(request))
    expect(second).not.toContain('a secret')
    expect(third).toContain('a secret')
  })

  test('are cancelled only for their own tenant', async () => {
    const rig = newRig()
    for (const tenant of TENANTS)
      await rig.runner.submit({ turnId: 't', input: [PROMPT] }, { tenant })
    expect(await rig.runner.cancel('t', 'enough', 'acme')).toBe(true)
    while (rig.runner.running > 2) await rig.clock.advance(0)
    const turns = await Promise.all(TENANTS.map((tenant) => rig.log.ofTenant(tenant).getTurn('t')))
    expect(turns.map((turn) => turn?.status)).toEqual(['in_progress', 'aborted', 'in_progress'])
    await expect(rig.runner.cancel('t', 'enough', 'nobody')).rejects.toMatchObject({
      code: 'TURN_UNKNOWN',
    })
    await shutDown(rig)
  })

  test('are ended for every tenant when their process is gone', async () => {
    const rig = newRig()
    for (const tenant of TENANTS) {
      const turn = { turnId: 'orphan', threadId: 'th', owner: 'the dead' }
      await rig.log.ofTenant(tenant).create(turn, 1000)
    }
    await rig.clock.advance(1000)
    await rig.runner.start()
    for (const tenant of TENANTS) {
      const story = await storyOf(rig.log.ofTenant(tenant), 'orphan')
      expect(story).toEqual(['end PRODUCER_LOST'])
    }
    await shutDown(rig)
  })

  test('need a valid tenant name', async () => {
    const rig = newRig()
    const submitted = rig.runner.submit({ input: [PROMPT] }, { tenant: 'no:name' })
    await expect(submitted).rejects.toMatchObject({ code: 'OPTION_INVALID' })
  })
})
