#!/usr/bin/env node
// An app-server that forwards the `response.*` events of the model, without thread ids. Its key says how.
import { createInterface } from 'node:readline'

const modes = new Set((process.env['TURNSTREAM_UPSTREAM_KEY'] ?? '').split(' '))
let threads = 0

/** @param {object} message */
const send = (message) => process.stdout.write(`${JSON.stringify(message)}\n`)
/** @param {string} type @param {object} [fields] */
const event = (type, fields = {}) => {
  if (modes.has('methods')) send({ method: type, params: fields })
  else send({ type, ...fields })
}

/** @param {string} threadId @param {string} prompt */
function run(threadId, prompt) {
  const turn = { id: `turn of ${threadId}` }
  if (!modes.has('unannounced')) send({ method: 'turn/started', params: { threadId, turn } })
  event('response.created', { response: { id: 'resp_1' } })
  if (modes.has('text')) event('response.output_text.delta', { item_id: 'm', delta: prompt })
  if (modes.has('call')) call('c')
  if (modes.has('again')) call('d')
  if (modes.has('errs')) event('error', { code: 'server_error', message: 'It broke' })
  if (modes.has('completes')) event('response.completed', { response: { id: 'resp_1' } })
  const error = modes.has('fails') ? { message: 'It broke', codexErrorInfo: 'badRequest' } : null
  const status = error === null ? 'completed' : 'failed'
  if (modes.has('ends') || error !== null) {
    send({ method: 'turn/completed', params: { threadId, turn: { ...turn, status, error } } })
  }
}

/** @param {string} call_id */
function call(call_id) {
  const item_id = `fc ${call_id}`
  const item = { type: 'function_call', id: item_id, call_id, name: 'weather' }
  event('response.output_item.added', { item })
  event('response.function_call_arguments.delta', { item_id, delta: '{"city":' })
  event('response.function_call_arguments.delta', { item_id, delta: '"Paris"}' })
  if (!modes.has('unfinished')) event('response.output_item.done', { item })
}

/** @type {string[]} */
const turns = []
/** @type {Map<string, string>} */
const prompts = new Map()

/** @type {Record<string, (params: any) => object>} */
const answers = {
  'config/read'() {
    const upstream = { base_url: 'http://127.0.0.1:1/v1' }
    return { config: { model_provider: 'upstream', model_providers: { upstream } } }
  },
  'thread/start'() {
    threads += 1
    const id = `thread ${threads} of ${process.pid}`
    return { thread: { id }, modelProvider: 'upstream' }
  },
  'thread/inject_items'({ threadId, items }) {
    prompts.set(threadId, items.at(-1).content[0].text)
    return {}
  },
  'turn/start'({ threadId }) {
    turns.push(threadId)
    // The first one speaks when the second has started.
    if (turns.length === (modes.has('waits') ? 2 : 1)) {
      setImmediate(() => {
        for (const each of turns.splice(0)) run(each, prompts.get(each) ?? '')
      })
    }
    return { turn: { id: `turn of ${threadId}` } }
  },
}

for await (const line of createInterface({ input: process.stdin })) {
  const { method, id, params } = JSON.parse(line)
  if (method === 'turn/interrupt') process.stderr.write('interrupted\n')
  if (id !== undefined) send({ id, result: answers[method]?.(params) ?? {} })
}
process.exit()
