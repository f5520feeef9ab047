// The proxies in docs/security.md, for the tests of its recipes.
import { findProgram } from './find-program.mjs'

/** @typedef {import('./find-program.mjs').Wanted} Wanted */
/** @typedef {import('./find-program.mjs').Where} Where */

// The libraries of nginx (libssl, libpcre2, zlib) come with curl, which the tests also need.
/** @satisfies {Wanted} */
const NGINX = {
  title: 'nginx',
  program: 'nginx',
  variable: 'NGINX_PATH',
  packages: ['nginx'],
  folder: 'usr/sbin',
  formula: 'nginx',
  versionArgs: ['-v'],
  versionPattern: /nginx\/(\S+)/,
}

/** @satisfies {Wanted} */
const CADDY = {
  title: 'Caddy',
  program: 'caddy',
  variable: 'CADDY_PATH',
  packages: ['caddy'],
  folder: 'usr/bin',
  formula: 'caddy',
  versionArgs: ['version'],
  versionPattern: /^v?(\d+\.\d+\S*)/,
}

/** @param {Where} [where] */
export function findNginx(where) {
  return findProgram(NGINX, where)
}

/** @param {Where} [where] */
export function findCaddy(where) {
  return findProgram(CADDY, where)
}
