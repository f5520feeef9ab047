/** Requests to `/v1/responses` as they are sent. */

export async function send(
  { url }: { readonly url: string },
  request: `${string} /${string}`,
  body?: unknown,
  headers: Record<string, string> = {},
) {
  const [method = '', path = ''] = request.split(' ')
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text }
}

// oxlint-disable-next-line typescript/no-explicit-any -- what it holds is what the test is about
export function json({ text }: { readonly text: string }): any {
  return JSON.parse(text)
}

/** The frames of an SSE text without comments, each with its blank line. */
export function framesOf(text: string): string[] {
  return text.split(/(?<=\n\n)/).filter((frame) => !frame.startsWith(':'))
}
