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

// The largest error of a gateway is far smaller. A server that is no gateway may send anything.
const MAX_BODY_BYTES = 64 * 1024

/** The error that a gateway answered with. A proxy in front of it may answer in any other way. */
export async function refusalOf(response: Response): Promise<RemoteError> {
  const { status, url } = response
  const location = response.headers.get('location')
  if (status >= 300 && status < 400 && location !== null) {
    await response.body?.cancel()
    const to = URL.parse(location, url)?.origin ?? location.slice(0, 200)
    const message = `${url} redirects to ${to}, and redirects are not followed. Pass --url ${to} if you trust it.`
    return new RemoteError('REDIRECTED', message)
  }
  const body = parseJsonSafe(await boundedText(response, MAX_BODY_BYTES).catch(() => ''))
  const error = isRecord(body) ? body['error'] : undefined
  if (isRecord(error) && typeof error['code'] === 'string') {
    const { code, message } = error
    const said = typeof message === 'string' ? message : code
    return new RemoteError(code, ADVICE.get(code) ?? said)
  }
  return new RemoteError(`HTTP_${status}`, `${url} answered with the status ${status}`)
}

/** The text of a body, or as much as fits into `maxBytes`. Stops reading there. */
export async function boundedText(response: Response, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes >= maxBytes) break
  }
  return Buffer.concat(chunks).subarray(0, maxBytes).toString('utf8')
}
