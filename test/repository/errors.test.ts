import { describe, expect, test } from 'vitest'
import { ERROR_CODES, type ErrorCode } from '../../packages/core/src/protocol/errors.ts'
import { literalsOf, read, sourceFiles } from './sources.ts'

const codes = Object.keys(ERROR_CODES) as ErrorCode[]
const doc = read('docs/errors.md')
const documented = [
  ...doc.matchAll(/^### ([A-Z_]+)\n\n(\d{3})(, retryable)?\. (.*?)(?=\n\n#|\n$)/gms),
].map(([, code = '', status = '', retryable = '', text = '']) => ({
  code,
  status: Number(status),
  retryable: retryable !== '',
  text,
}))
const used = new Set(
  sourceFiles()
    .filter((file) => file !== 'packages/core/src/protocol/errors.ts')
    .flatMap((file) => literalsOf(file)),
)

describe('docs/errors.md', () => {
  test('explains each code of packages/core/src/protocol/errors.ts once', () => {
    expect(documented.map(({ code }) => code).toSorted()).toEqual(codes)
  })

  test('lists the codes of each section in alphabetical order', () => {
    for (const part of doc.split(/^## /m)) {
      const listed = [...part.matchAll(/^### ([A-Z_]+)$/gm)].map(([, code = '']) => code)
      expect(listed).toEqual(listed.toSorted())
    }
  })

  test.each(codes)('has the status and retryability of %s', (code) => {
    const { status, retryable } = ERROR_CODES[code]
    const entry = documented.find((each) => each.code === code)
    expect(entry).toMatchObject({ status, retryable })
    expect(entry?.text).toMatch(/^\S.*\.$/s)
  })
})

describe('the codes', () => {
  test('are in alphabetical order', () => {
    expect(codes).toEqual(codes.toSorted())
  })

  test.each(codes)('%s is used in src/', (code) => {
    expect(used.has(code), `no file of src/ but errors.ts names ${code}`).toBe(true)
  })
})
