// A redis-server for tests and benchmarks. Use it through scripts/redis-server.mjs.
import { dirname } from 'node:path'
import { findFile, findProgram } from './find-program.mjs'

/**
 * A Redis that runs on this machine. `env` are additional environment variables.
 * @typedef {{ server: string, cli: string | undefined, env: Record<string, string>, version: string }} Redis
 */

/** @satisfies {import('./find-program.mjs').Wanted} */
const REDIS = {
  title: 'Redis',
  program: 'redis-server',
  variable: 'REDIS_SERVER_PATH',
  // redis-server is a link to a program of redis-tools; the rest are libraries that a small image lacks.
  packages: ['redis-server', 'redis-tools', 'libjemalloc2', 'liblzf1', 'libatomic1'],
  folder: 'usr/bin',
  formula: 'redis',
  versionArgs: ['--version'],
  versionPattern: /\bv=(\S+)/,
}

/**
 * Looks for Redis where `findProgram` looks.
 * @param {{ serverPath?: string | undefined, path?: string, cache?: string }} [options]
 * @returns {Redis}
 */
export function findRedis({ serverPath, ...where } = {}) {
  const { file, env, version } = findProgram(REDIS, { file: serverPath, ...where })
  return { server: file, cli: findFile('redis-cli', dirname(file)), env, version }
}
