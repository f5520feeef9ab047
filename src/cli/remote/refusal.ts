import { isRecord, parseJsonSafe } from '../../protocol/json.ts'
import { RemoteError } from './errors.ts'

/** What a gateway says when it refuses; a proxy before it may answer in any other way. */
export async function refusalOf(response: Response): Promise<RemoteError> {
  const text = await response.text().catch(() => '')
  const body = parseJsonSafe(text)
  const error = isRecord(body) ? body['error'] : undefined
  if (isRecord(error) && typeof error['code'] === 'string') {
    const { code, message } = error
    return new RemoteError(code, typeof message === 'string' ? message : code)
  }
  const { status, url } = response
  return new RemoteError(`HTTP_${status}`, `${url} answered with the status ${status}`)
}
