import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'

export interface Certificate {
  readonly certificate: string
  readonly key: string
}

/** Tags of DER. */
const TAG = {
  integer: 0x02,
  bits: 0x03,
  octets: 0x04,
  oid: 0x06,
  text: 0x0c,
  time: 0x17,
  sequence: 0x30,
  set: 0x31,
  dnsName: 0x82,
  version: 0xa0,
  extensions: 0xa3,
} as const

const DAY_MS = 86_400_000

/** A certificate that signs itself, for one name. Node can check them and not make them. */
export function selfSigned(host: string): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const body = toBeSigned(host, publicKey)
  const signature = sign('sha256', body, privateKey)
  const whole = der('sequence', body, ecdsaWithSha256(), bits(signature))
  return {
    certificate: pem('CERTIFICATE', whole),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

function toBeSigned(host: string, publicKey: KeyObject): Buffer {
  // 2.5.4.3 is a common name, 2.5.29.17 are the other names, which are those that count.
  const name = der(
    'sequence',
    der('set', der('sequence', oid(0x55, 4, 3), der('text', Buffer.from(host)))),
  )
  const names = der('sequence', der('dnsName', Buffer.from(host)))
  const extension = der('sequence', oid(0x55, 0x1d, 0x11), der('octets', names))
  return der(
    'sequence',
    der('version', der('integer', Buffer.of(2))),
    der('integer', Buffer.of(1)),
    ecdsaWithSha256(),
    name,
    der('sequence', time(Date.now() - DAY_MS), time(Date.now() + DAY_MS)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der('extensions', der('sequence', extension)),
  )
}

/** 1.2.840.10045.4.3.2 */
function ecdsaWithSha256(): Buffer {
  return der('sequence', oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2))
}

function oid(...bytes: number[]): Buffer {
  return der('oid', Buffer.from(bytes))
}

function bits(content: Buffer): Buffer {
  // No bit of the last byte is unused.
  return der('bits', Buffer.of(0), content)
}

function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replaceAll(/\D/g, '').slice(2, 14)
  return der('time', Buffer.from(`${digits}Z`))
}

function der(tag: keyof typeof TAG, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  return Buffer.concat([Buffer.of(TAG[tag], ...lengthOf(content)), content])
}

function lengthOf({ length }: Buffer): number[] {
  if (length < 0x80) return [length]
  if (length < 0x1_00) return [0x81, length]
  return [0x82, length >> 8, length & 0xff]
}

function pem(label: string, content: Buffer): string {
  const lines = content.toString('base64').replaceAll(/.{64}(?=.)/g, '$&\n')
  return `-----BEGIN ${label}-----\n${lines}\n-----END ${label}-----\n`
}
