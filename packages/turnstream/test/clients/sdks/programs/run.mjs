// Runs scenarios of one SDK for a test: one JSON request per line of stdin, one JSON result per line of stdout.
//
//     node run.mjs <program>
import { createInterface } from 'node:readline'

// What SDKs print must not get between the results.
const print = process.stdout.write.bind(process.stdout)
process.stdout.write = process.stderr.write.bind(process.stderr)

const scenarios = await import(`./${process.argv[2]}.mjs`)

for await (const line of createInterface({ input: process.stdin })) {
  const { scenario, ...options } = JSON.parse(line)
  print(`${JSON.stringify(await outcomeOf(scenario, options))}\n`)
}

/** @param {string} scenario @param {object} options */
async function outcomeOf(scenario, options) {
  try {
    return { result: await scenarios[scenario](options) }
  } catch (error) {
    const { name, message, status, code, type } = error
    return { error: { name, message, status, code, type } }
  }
}
