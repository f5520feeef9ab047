#!/usr/bin/env node
// An app-server that misbehaves as the variable MODE says. It gets no other variable of the test.
import { createInterface } from 'node:readline'

const mode = process.env['MODE']
const threadId = 'thread-1'
const turnId = 'turn-1'
const APPROVAL_ID = 7

/** @param {object} message */
const send = (message) => process.stdout.write(`${JSON.stringify(message)}\n`)
/** @param {unknown} id @param {object} result */
const reply = (id, result) => send({ id, result })
/** @param {unknown} id @param {number} code @param {string} message */
const refuse = (id, code, message) => send({ id, error: { code, message } })
/** @param {string} text */
const log = (text) => process.stderr.write(`${text}\n`)

function runTurn() {
  send({ method: 'turn/started', params: { threadId, turn: { id: turnId } } })
  if (mode === 'silent') return
  if (mode === 'endless') {
    const delta = { threadId, turnId, itemId: 'msg-1', delta: 'again ' }
    setInterval(() => send({ method: 'item/agentMessage/delta', params: delta }), 20)
    return
  }
  if (mode?.startsWith('command')) {
    runCommand()
    return
  }
  if (mode === 'asks') {
    process.stdout.write('this is no message\n[1]\n{"id":"unknown"}\n')
    const method = 'item/commandExecution/requestApproval'
    send({ method, id: APPROVAL_ID, params: { threadId } })
    return
  }
  finishTurn('Hello.')
}

/** A command of an agent, about which the mode says what happens. */
function runCommand() {
  const item = {
    type: 'commandExecution',
    id: 'c1',
    command: 'make',
    cwd: '/',
    status: 'inProgress',
  }
  send({ method: 'item/started', params: { threadId, turnId, item } })
  if (mode === 'command dies') process.exit(1)
  if (mode === 'command is quiet') {
    setTimeout(() => finishTurn('At last.'), 700)
    return
  }
  const itemId = mode === 'command is unnamed' ? null : 'c1'
  const subject = mode === 'command wants permissions' ? 'permissions' : 'commandExecution'
  const method = `item/${subject}/requestApproval`
  send({ method, id: APPROVAL_ID, params: { threadId, turnId, itemId } })
}

/** @param {string} text */
function finishTurn(text) {
  const item = { type: 'agentMessage', id: 'msg-1', text }
  send({ method: 'item/started', params: { threadId, turnId, item: { ...item, text: '' } } })
  send({ method: 'item/completed', params: { threadId, turnId, item } })
  const turn = { id: turnId, status: 'completed', items: [], error: null }
  send({ method: 'turn/completed', params: { threadId, turn } })
}

/** @type {Record<string, (id: unknown, params: any) => void>} */
const answers = {
  initialize(id, { capabilities }) {
    log(`opted out of ${capabilities.optOutNotificationMethods.join(' ')}`)
    if (mode === 'exits') process.exit(3)
    if (mode !== 'deaf') reply(id, { userAgent: 'scripted' })
  },
  'thread/start'(id) {
    // Both sides number their requests from 0.
    if (mode === 'asks') send({ method: 'currentTime/read', id, params: {} })
    reply(id, mode === 'threadless' ? {} : { thread: { id: threadId } })
  },
  'thread/inject_items'(id) {
    if (mode === 'dies') process.exit(1)
    if (mode === 'forgets') refuse(id, -32001, 'no history today')
    else reply(id, {})
  },
  'turn/start'(id) {
    if (mode === 'refuses') return refuse(id, -32600, 'no turns today')
    reply(id, { turn: { id: turnId } })
    return mode === 'forgets' ? undefined : runTurn()
  },
  'turn/interrupt'(id, params) {
    log(`interrupted ${params.turnId}`)
    reply(id, {})
  },
}

if (process.argv.includes('--version')) {
  process.stdout.write('codex-cli 0.166.0\n')
  process.exit()
}
log('\u001b[31mstarted\u001b[0m with sk-ant-REDACTED')
for await (const line of createInterface({ input: process.stdin })) {
  const { method, id, params, error, result } = JSON.parse(line)
  if (method in answers) answers[method]?.(id, params)
  else if (method !== undefined && id !== undefined) reply(id, {})
  else if (id === APPROVAL_ID) {
    finishTurn(error ? `Refused with ${error.code}.` : `Decided: ${result.decision}.`)
  }
}
process.exit()
