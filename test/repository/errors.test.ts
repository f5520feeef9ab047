import { describe, expect, test } from 'vitest'
import { ERROR_CODES, type ErrorCode } from '../../src/protocol/errors.ts'
import { literalsOf, read, sourceFiles } from './sources.ts'
import { tableRows } from './tables.ts'

const codes = Object.keys(ERROR_CODES) as ErrorCode[]
const documented = tableRows(read('docs/errors.md')).map((cells) => {
  const [code = '', status = '', retryable = '', when = '', remedy = ''] = cells
  return { code: code.replaceAll('`', ''), status, retryable, when, remedy }
})
const used = new Set(
  sourceFiles()
    .filter((file) => file !== 'src/protocol/errors.ts')
    .flatMap((file) => literalsOf(file)),
)

describe('docs/errors.md', () => {
  test('has one row for each code of the table in src/protocol/errors.ts, in its order', () => {
    expect(documented.map(({ code }) => code)).toEqual(codes)
  })

  test.each(codes)('gives the status and the retryability of %s', (code) => {
    const { status, retryable } = ERROR_CODES[code]
    const row = documented.find((each) => each.code === code)
    expect(row).toMatchObject({ status: `${status}`, retryable: retryable ? 'yes' : 'no' })
  })

  test.each(codes)('says when %s happens and what to do', (code) => {
    const row = documented.find((each) => each.code === code)
    expect(row?.when).not.toBe('')
    expect(row?.remedy).not.toBe('')
  })
})

describe('the codes', () => {
  test('stand in alphabetical order', () => {
    expect(codes).toEqual(codes.toSorted())
  })

  test.each(codes)('%s is used in src/', (code) => {
    expect(used.has(code), `no file of src/ but errors.ts names ${code}`).toBe(true)
  })
})
