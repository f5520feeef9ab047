import { ERROR_CODES } from '../../protocol/errors.ts'

/** The code of a failure if it is one of ours; vendors have their own, and may say anything. */
export function knownCode(code: string): string {
  return Object.hasOwn(ERROR_CODES, code) || /^HTTP_\d{3}$/.test(code) ? code : 'other'
}
