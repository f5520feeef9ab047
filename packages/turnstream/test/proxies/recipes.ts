/** The recipes of docs/security.md, as they are printed there, made to run on ports and in a folder of a test. */
import { join } from 'node:path'
import { read } from '../../../../test/repository/sources.ts'

export const PROXIES = ['nginx', 'caddy'] as const
export type ProxyName = (typeof PROXIES)[number]

/** The name that the recipes are written for. */
export const HOST = 'gateway.example.com'

const FENCES: Record<ProxyName, string> = { nginx: 'nginx', caddy: 'caddyfile' }

/** What the document shows, to the letter. */
export function recipe(name: ProxyName): string {
  const pattern = new RegExp(`^\`\`\`${FENCES[name]}\n(.*?)^\`\`\``, 'gms')
  const [found, ...more] = [...read('docs/security.md').matchAll(pattern)]
  if (found?.[1] === undefined || more.length > 0) {
    throw new Error(`docs/security.md has not one recipe for ${name}`)
  }
  return found[1]
}

export interface Place {
  readonly folder: string
  readonly port: number
  /** `host:port` of each instance. */
  readonly upstreams: readonly string[]
}

/**
 * The same with the ports, the instances and the files of a test, and nothing else: each text that is
 * replaced has to be there.
 */
export function placed(name: ProxyName, text: string, place: Place): string {
  return name === 'nginx' ? placedNginx(text, place) : placedCaddy(text, place)
}

function placedNginx(text: string, { folder, port, upstreams }: Place): string {
  const servers = upstreams.map((address) => `server ${address} fail_timeout=5s;`)
  return replaceAll(text, [
    ['server 127.0.0.1:4010 fail_timeout=5s;', servers.join('\n')],
    ['server 127.0.0.1:4011 fail_timeout=5s;', ''],
    ['listen 443 ssl http2;', `listen 127.0.0.1:${port} ssl http2;`],
    // The machine may have no IPv6.
    ['listen [::]:443 ssl http2;', `listen unix:${join(folder, 'socket')} ssl http2;`],
    ['/etc/ssl/turnstream/fullchain.pem', join(folder, 'certificate.pem')],
    ['/etc/ssl/turnstream/privkey.pem', join(folder, 'key.pem')],
    ['/var/log/nginx/turnstream.log', join(folder, 'access.log')],
    ['/var/log/nginx/turnstream-error.log', join(folder, 'error.log')],
  ])
}

function placedCaddy(text: string, { folder, port, upstreams }: Place): string {
  const certificate = `tls ${join(folder, 'certificate.pem')} ${join(folder, 'key.pem')}`
  return replaceAll(text, [
    // It has a port for orders, which is the same on every machine, unless it is told otherwise.
    ['{\n', `{\n\tadmin off\n\thttps_port ${port}\n\tdefault_bind 127.0.0.1\n`],
    [`${HOST} {\n`, `${HOST} {\n\t${certificate}\n`],
    ['127.0.0.1:4010 127.0.0.1:4011', upstreams.join(' ')],
  ])
}

/** Replaces the first of each; one that is not there is an error. */
export function replaceAll(text: string, changes: readonly (readonly [string, string])[]): string {
  return changes.reduce((changed, [from, to]) => {
    if (!changed.includes(from)) throw new Error(`the recipe has no "${from}"`)
    return changed.replace(from, () => to)
  }, text)
}
