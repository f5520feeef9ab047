import { isRecord, parseJsonSafe } from '../../protocol/json.ts'
import { RemoteError } from './errors.ts'

/** What its own words would not tell whoever sits at a terminal. */
const ADVICE: ReadonlyMap<string, string> = new Map([
  [
    'KEY_REQUIRED',
    'the gateway needs a key: put one into TURNSTREAM_KEY, or name a file with TURNSTREAM_KEY_FILE; ' +
      'its operator makes them with "turnstream keys add"',
  ],
  [
    'KEY_INVALID',
    'the gateway does not know the key of TURNSTREAM_KEY, or no longer: ask its operator for another',
  ],
])

/** What a gateway says when it refuses; a proxy before it may answer in any other way. */
export async function refusalOf(response: Response): Promise<RemoteError> {
  const text = await response.text().catch(() => '')
  const body = parseJsonSafe(text)
  const error = isRecord(body) ? body['error'] : undefined
  if (isRecord(error) && typeof error['code'] === 'string') {
    const { code, message } = error
    const said = typeof message === 'string' ? message : code
    return new RemoteError(code, ADVICE.get(code) ?? said)
  }
  const { status, url } = response
  return new RemoteError(`HTTP_${status}`, `${url} answered with the status ${status}`)
}
