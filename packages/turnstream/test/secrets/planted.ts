/** Secrets that a test has planted, and where they have turned up. */

/** What is there, under a name for people. */
export type Secrets = Readonly<Record<string, string>>

/** How a secret may be written. Made without the code that is to be tested. */
export function spellingsOf(secret: string): string[] {
  const inJson = JSON.stringify(secret).slice(1, -1)
  const shifted = [0, 1, 2].map((shift) => {
    const whole = Buffer.from(`${'.'.repeat(shift)}${secret}....`).toString('base64')
    // The first and the last letters depend on what stands beside it.
    return whole.slice(4, Math.floor(((shift + Buffer.byteLength(secret)) * 8) / 6) - 1)
  })
  const inUrls = encodeURIComponent(secret)
  return [
    secret,
    inUrls,
    inUrls.replaceAll(/%../g, (code) => code.toLowerCase()),
    inJson,
    JSON.stringify(inJson).slice(1, -1),
    ...shifted,
    ...shifted.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
    Buffer.from(secret).toString('hex'),
  ]
}

/** The names of the secrets that are in a text, and a little of what is around them. */
export function leaksIn(text: string, secrets: Secrets): string[] {
  return Object.entries(secrets).flatMap(([name, secret]) => {
    const at = spellingsOf(secret)
      .map((spelling) => text.indexOf(spelling))
      .find((index) => index !== -1)
    return at === undefined ? [] : [`${name}: ${text.slice(Math.max(0, at - 60), at + 60)}`]
  })
}
