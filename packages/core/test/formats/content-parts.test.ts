import { expect, test } from 'vitest'
import { readDataUrl } from '../../src/formats/content-parts.ts'

const PNG = 'iVBORw0KGgo='
const GIF = 'R0lGODlh'

test.each([
  [`data:image/png;base64,${PNG}`, { type: 'image', media_type: 'image/png', data: PNG }],
  [`DATA:image/GIF;base64,${GIF}`, { type: 'image', media_type: 'image/gif', data: GIF }],
  ['data:image/jpg;base64,/9j/', { type: 'image', media_type: 'image/jpeg', data: '/9j/' }],
  [7, 'must be a data URL'],
  ['https://example.com/a.png', expect.stringMatching(/^cannot be fetched/)],
  ['data:image/tiff;base64,AAAA', expect.stringMatching(/^must be image\/png, .* or image\/webp$/)],
  [`data:image/png;base64,${GIF}`, 'is not image/png'],
  ['data:image/png;base64,', 'is not valid base64'],
  [`data:image/png;base64,${PNG.slice(0, -1)}`, 'is not valid base64'],
  [`data:image/gif;base64,${GIF}AA=A`, 'is not valid base64'],
  [`data:image/gif;base64,${GIF}A===`, 'is not valid base64'],
  [`data:image/gif;base64,${GIF}AA\nA`, 'is not valid base64'],
  [`data:image/gif;base64,${GIF}AA-_`, 'is not valid base64'],
  [`data:image/png;base64,${'A'.repeat(8_000_000)}`, 'is larger than 5242880 bytes'],
])('an image %.40s is read, or why it is none', (url, read) => {
  expect(readDataUrl('image', url)).toEqual(read)
})

test('a file is a PDF', () => {
  const data = btoa('%PDF-1.7')
  const url = `data:application/pdf;base64,${data}`
  expect(readDataUrl('file', url)).toEqual({ type: 'file', media_type: 'application/pdf', data })
  expect(readDataUrl('file', `data:image/png;base64,${PNG}`)).toBe('must be application/pdf')
})
