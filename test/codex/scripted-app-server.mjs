#!/usr/bin/env node
// An app-server that misbehaves as the variable MODE says. It gets no other variable of the test.
import { createInterface } from 'node:readline'

const mode = process.env['MODE']
const threadId = 'thread-1'
/** @param {object} message */
const send = (message) => process.stdout.write(`${JSON.stringify(message)}\n`)
/** @param {unknown} id @param {object} result */
const reply = (id, result) => send({ id, result })

function runTurn() {
  const turn = { id: 'turn-1' }
  send({ method: 'turn/started', params: { threadId, turn } })
  if (mode === 'silent') return
  if (mode === 'asks') {
    process.stdout.write('this is no message\n[1]\n{"id":"unknown"}\n')
    send({ method: 'item/commandExecution/requestApproval', id: 7, params: { threadId } })
    return
  }
  finishTurn('Hello.')
}

/** @param {string} text */
function finishTurn(text) {
  const turnId = 'turn-1'
  const item = { type: 'agentMessage', id: 'msg-1', text }
  send({ method: 'item/started', params: { threadId, turnId, item: { ...item, text: '' } } })
  send({ method: 'item/completed', params: { threadId, turnId, item } })
  const turn = { id: turnId, status: 'completed', items: [], error: null }
  send({ method: 'turn/completed', params: { threadId, turn } })
}

/** @type {Record<string, (id: unknown) => void>} */
const answers = {
  initialize(id) {
    if (mode === 'exits') process.exit(3)
    if (mode !== 'deaf') reply(id, { userAgent: 'scripted' })
  },
  'thread/start': (id) => reply(id, mode === 'threadless' ? {} : { thread: { id: threadId } }),
  'thread/inject_items'(id) {
    if (mode === 'dies') process.exit(1)
    reply(id, {})
  },
  'turn/start'(id) {
    if (mode === 'refuses') send({ id, error: { code: -32600, message: 'no turns today' } })
    else {
      reply(id, { turn: { id: 'turn-1' } })
      runTurn()
    }
  },
}

process.stderr.write('\u001b[31mstarted\u001b[0m with sk-ant-REDACTED\n')
for await (const line of createInterface({ input: process.stdin })) {
  const { method, id, error } = JSON.parse(line)
  // Our request was refused.
  if (method === undefined) finishTurn(`Refused with ${error.code}.`)
  else if (method in answers) answers[method]?.(id)
  else if (id !== undefined) reply(id, {})
}
