// Writes the protocol's zod schemas as JSON Schema, for readers in other languages.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import * as z from 'zod'

/** @param {string} dist */
export async function writeSchemas(dist) {
  const api = await import(pathToFileURL(join(dist, 'index.js')).href)
  const { version } = JSON.parse(readFileSync(join(dist, '..', 'package.json'), 'utf8'))
  const schemas = {
    'stream-event': api.streamEventSchema,
    'output-item': api.outputItemSchema,
    'stream-output': api.streamOutputSchema,
    'stream-message': api.streamMessageSchema,
    response: api.responseSchema,
    'response-event': api.responseEventSchema,
    // One line of a cassette.
    cassette: api.cassetteLineSchema,
  }
  mkdirSync(join(dist, 'schema'), { recursive: true })
  for (const [name, schema] of Object.entries(schemas)) {
    const json = { $id: `turnstream/schema/${name}.json`, version, ...z.toJSONSchema(schema) }
    writeFileSync(join(dist, 'schema', `${name}.json`), `${JSON.stringify(json, null, 2)}\n`)
  }
}
