import { once } from 'node:events'
import { connect } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { selfSigned } from './certificate.ts'
import { checkRecipe, startProxy } from './proxy.ts'
import { HOST, PROXIES, replaceAll } from './recipes.ts'

const FAULTS = {
  nginx: ['proxy_buffering off;', 'proxy_bufering off;'],
  caddy: ['lb_policy least_conn', 'lb_policy fewest'],
} as const

test.each(PROXIES)('%s accepts the recipe without warnings', (name) => {
  const { status, output } = checkRecipe(name)
  // The recipe says what a newer nginx would have instead.
  const rest = output.replace(/^.*"listen \.\.\. http2" directive is deprecated.*$/gm, '')
  expect(rest).not.toMatch(/\[(warn|error|emerg)\]|"level":"(error|fatal)"/)
  expect(status).toBe(0)
})

test.each(PROXIES)('%s rejects a faulty recipe, so the check works', (name) => {
  const [right, wrong] = FAULTS[name]
  const { status, output } = checkRecipe(name, (text) => replaceAll(text, [[right, wrong]]))
  expect(status).not.toBe(0)
  expect(output).toContain(
    wrong
      .split(' ')
      .find((word) => !right.includes(word))
      ?.replace(';', ''),
  )
})

test.each(PROXIES)('%s presents its certificate', async (name) => {
  const { port, certificate } = await startProxy(name, { upstreams: ['127.0.0.1:1'] })
  const ask = async (ca: string) => {
    const socket = connect({ host: '127.0.0.1', port, servername: HOST, ca })
    onTestFinished(() => void socket.destroy())
    await once(socket, 'secureConnect')
    return socket.getProtocol()
  }
  expect(await ask(certificate)).toBe('TLSv1.3')
  await expect(ask(selfSigned(HOST).certificate)).rejects.toThrow('self-signed')
})
