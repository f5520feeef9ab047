// A vendor, `turnstream codex` in front of it and one turn, all below this process, which others can trace or isolate.
// Arguments: a folder for everything that is written, and the codex binary. Prints the answer.
import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const [, , folder = '', binary = ''] = process.argv
const vendor = fork(fileURLToPath(new URL('vendor-process.mjs', import.meta.url)))
const [{ port }] = /** @type {[{ port: number }]} */ (await once(vendor, 'message'))
const codex = { binary, baseUrl: `http://127.0.0.1:${port}/v1`, keyVariable: null, models: ['m'] }
writeFileSync(join(folder, 'turnstream.config.json'), JSON.stringify({ codex }))

const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const gateway = spawn(process.execPath, [main, 'codex', '--port', '0'], {
  cwd: folder,
  stdio: ['ignore', 'pipe', 'inherit'],
})
let banner = ''
for await (const text of gateway.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
  banner += text
  if (banner.includes('\n')) break
}
gateway.stdout.resume()
const [, url = ''] = /listening on (\S+)/.exec(banner) ?? []
const response = await fetch(`${url}/v1/chat/completions`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'alone?' }] }),
})
process.stdout.write(await response.text())
gateway.kill('SIGTERM')
await once(gateway, 'exit')
vendor.disconnect()
