import { describe, expect, test } from 'vitest'
import { resolveLimits } from '../../../src/server/limits/key-limits.ts'
import {
  nodeMaxHeaders,
  nodeOptions,
  nodeWriteTimeout,
  PORT_LIMITS,
  type PortLimits,
} from '../../../src/server/limits/port-limits.ts'

describe('the port limits', () => {
  test.each(['maxConnections', 'maxUrlBytes', 'maxHeaders', 'writeTimeoutMs'] as const)(
    '%s is an integer ≥ 1, or Infinity',
    (name) => {
      for (const value of [0, -1, 1.5, Number.NaN]) {
        expect(() => resolveLimits(PORT_LIMITS, { [name]: value })).toThrow(
          `${name} must be an integer from 1, or Infinity for no limit, not ${value}`,
        )
      }
      expect(resolveLimits(PORT_LIMITS, { [name]: Infinity })[name]).toBe(Infinity)
      expect(resolveLimits(PORT_LIMITS, { [name]: 7 })[name]).toBe(7)
    },
  )

  test('have the documented defaults', () => {
    expect(resolveLimits(PORT_LIMITS, {})).toEqual({
      maxConnections: 10_000,
      maxUrlBytes: 8192,
      maxHeaderBytes: 16_384,
      maxHeaders: 100,
      headersTimeoutMs: 20_000,
      requestTimeoutMs: 60_000,
      keepAliveTimeoutMs: 72_000,
      writeTimeoutMs: 30_000,
    })
  })

  test('are checked often enough to be precise', () => {
    const interval = (limits: Partial<PortLimits>) =>
      nodeOptions(resolveLimits(PORT_LIMITS, limits)).connectionsCheckingInterval
    expect(interval({})).toBe(1000)
    expect(interval({ headersTimeoutMs: 2000 })).toBe(100)
    expect(interval({ requestTimeoutMs: 1000 })).toBe(50)
    expect(interval({ headersTimeoutMs: 1 })).toBe(10)
    expect(interval({ headersTimeoutMs: Infinity, requestTimeoutMs: Infinity })).toBe(1000)
  })

  test('are consistent: headersTimeout is at most requestTimeout', () => {
    const options = nodeOptions(resolveLimits(PORT_LIMITS, { requestTimeoutMs: 5000 }))
    expect(options).toMatchObject({ headersTimeout: 5000, requestTimeout: 5000 })
  })

  test('that are infinite are also disabled in Node', () => {
    const limits = resolveLimits(PORT_LIMITS, {
      ...{ headersTimeoutMs: Infinity, requestTimeoutMs: Infinity, keepAliveTimeoutMs: Infinity },
      ...{ writeTimeoutMs: Infinity, maxHeaders: Infinity, maxUrlBytes: Infinity },
    })
    expect(nodeOptions(limits)).toMatchObject({
      ...{ headersTimeout: 0, requestTimeout: 0, keepAliveTimeout: 2 ** 31 - 1 },
      maxHeaderSize: Number.MAX_SAFE_INTEGER,
    })
    expect([nodeMaxHeaders(limits), nodeWriteTimeout(limits)]).toEqual([0, 0])
  })
})
