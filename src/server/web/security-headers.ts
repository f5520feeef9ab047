/**
 * What every answer tells a browser that shows it or loads it, also when it is a refusal. `permissions-policy`
 * is not among them: nothing runs in a document without sources. `strict-transport-security` belongs to who
 * ends TLS.
 */
export const SECURITY_HEADERS = {
  'x-content-type-options': 'nosniff',
  // Ids and stream tokens stand in addresses.
  'referrer-policy': 'no-referrer',
  // Holds for what pages load without asking, as a picture or a script. Who is on the list of origins asks,
  // and is not held back by it.
  'cross-origin-resource-policy': 'same-origin',
  'content-security-policy':
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  // The same as `frame-ancestors`, for browsers that do not know it.
  'x-frame-options': 'DENY',
} as const
