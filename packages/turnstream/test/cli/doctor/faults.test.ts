/** Each fault is planted for real; the report has to name it and say how to put it right. */
import { describe, expect, test } from 'vitest'
import { startGateway } from '../gateway.ts'
import { lockedStore, SECRET } from './planted.ts'
import { PLANTED_PROVIDERS } from './planted-providers.ts'
import { PLANTED_SETUP } from './planted-setup.ts'
import { bothReports, checkNamed, defaults, PATIENCE } from './support.ts'

describe('a planted fault is reported with a fix', PATIENCE, () => {
  test.each([...PLANTED_SETUP, ...PLANTED_PROVIDERS])(
    '$fault',
    async ({ plant, check, verdict, found, fix }) => {
      const { code, text, json, report } = await bothReports(defaults(await plant()))
      const named = report.checks.filter((each) => each.name === check)
      expect(named).toEqual([
        {
          name: check,
          verdict,
          found: expect.stringMatching(found),
          fix: expect.stringMatching(fix),
        },
      ])
      expect(text).toMatch(new RegExp(`^${verdict} +${check} +\\S`, 'm'))
      expect(text).toContain(`fix: ${named[0]?.fix}`)
      expect(code).toBe(verdict === 'fail' ? 1 : 0)
      expect(report).toMatchObject({ ok: code === 0, failed: code })
      const failed = report.checks.filter((each) => each.verdict === 'fail').map(({ name }) => name)
      expect(failed).toEqual(verdict === 'fail' ? [check] : [])
      expect(`${text}${json}`).not.toContain(SECRET)
    },
  )
})

describe('a server that is already running', PATIENCE, () => {
  test('may use the port', async () => {
    const { url } = await startGateway()
    const { report } = await bothReports(defaults({ args: ['--port', new URL(url).port] }))
    expect(checkNamed(report, 'port')).toEqual({
      name: 'port',
      verdict: 'ok',
      found: `a turnstream server is running at ${url}`,
    })
  })

  test('may use the store', async () => {
    const { url } = await startGateway()
    const { cwd, args = [] } = await lockedStore()
    const { code, report } = await bothReports({
      ...(cwd !== undefined && { cwd }),
      args: [...args, '--port', new URL(url).port],
    })
    expect(checkNamed(report, 'store')).toMatchObject({
      verdict: 'warn',
      found: expect.stringContaining(`probably the server at ${url}`),
    })
    expect(code).toBe(0)
  })
})
