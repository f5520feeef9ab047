#!/usr/bin/env node
// An app-server that misbehaves as its key says. It gets no other variable of the test.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const home = process.env['CODEX_HOME'] ?? ''
const mode = process.env['TURNSTREAM_UPSTREAM_KEY']
const threadId = 'thread-1'
const turnId = 'turn-1'
const APPROVAL_ID = 7
const CALL_ID = 8

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
  if (mode?.startsWith('calls')) {
    callTool()
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

const CALL = { call_id: 'call-1', name: 'weather', arguments: '{"city":"Paris"}' }

/** A tool of the client. As a real one, it says nothing of a response that broke off before the call is answered. */
function callTool() {
  const { call_id: callId, name: tool } = CALL
  const item = { type: 'dynamicToolCall', id: callId, tool, arguments: { city: 'Paris' } }
  const raw = { type: 'function_call', id: 'fc-1', ...CALL }
  send({ method: 'rawResponseItem/completed', params: { threadId, turnId, item: raw } })
  send({ method: 'item/started', params: { threadId, turnId, item } })
  const params = { threadId, turnId, callId, tool, arguments: item.arguments }
  send({ method: 'item/tool/call', id: CALL_ID, params })
  if (mode === 'calls, completes') {
    send({ method: 'rawResponse/completed', params: { threadId, turnId, responseId: 'r' } })
  }
}

/** @param {{ contentItems: unknown }} result */
function failAfterCall({ contentItems }) {
  log('the call was answered')
  const { call_id, name: tool } = CALL
  const item = { type: 'dynamicToolCall', id: call_id, tool, contentItems, success: false }
  send({ method: 'item/completed', params: { threadId, turnId, item } })
  const raw = { type: 'function_call_output', call_id, output: 'not run' }
  send({ method: 'rawResponseItem/completed', params: { threadId, turnId, item: raw } })
  const message =
    mode === 'calls, runs out'
      ? 'Incomplete response returned, reason: max_output_tokens'
      : 'stream disconnected before completion: stream closed before response.completed'
  const error = { message, codexErrorInfo: 'other' }
  send({ method: 'error', params: { threadId, turnId, error, willRetry: false } })
  const turn = { id: turnId, status: 'failed', items: [], error }
  send({ method: 'turn/completed', params: { threadId, turn } })
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

/** Answers when the test has written a file beside our home. @param {unknown} id @param {object} result */
function replyWhenTold(id, result) {
  log('waiting')
  const timer = setInterval(() => {
    if (!existsSync(join(home, '..', 'go'))) return
    clearInterval(timer)
    reply(id, result)
  }, 5)
}

/** All that codex reads of its home. */
function configuration() {
  const files = ['config.toml', 'catalog.json'].map((name) => join(home, name))
  return files.map((file) => existsSync(file) && readFileSync(file, 'utf8')).join('')
}

/** @type {Record<string, (id: unknown, params: any) => void>} */
const answers = {
  initialize(id, { capabilities }) {
    log(`opted out of ${capabilities.optOutNotificationMethods.join(' ')}`)
    if (mode === 'exits') process.exit(3)
    if (mode !== 'deaf') reply(id, { userAgent: 'scripted' })
  },
  'config/read'(id) {
    const name = mode === 'managed' ? 'openai' : 'upstream'
    const [, configured] =
      /^model_providers\.upstream\.base_url = "(.*)"$/m.exec(configuration()) ?? []
    const base_url = mode === 'redirected' ? 'https://other.test' : configured
    reply(id, { config: { model_provider: name, model_providers: { upstream: { base_url } } } })
  },
  'thread/start'(id) {
    // Both sides number their requests from 0.
    if (mode === 'asks') send({ method: 'currentTime/read', id, params: {} })
    if (mode === 'hangs') return log('no answer')
    // A real one reads its files again for each thread.
    if (configuration() !== started) return refuse(id, -32600, 'the configuration has changed')
    const modelProvider = mode === 'falls back' ? 'openai' : 'upstream'
    const answer = mode === 'threadless' ? {} : { thread: { id: threadId }, modelProvider }
    return mode === 'late' ? replyWhenTold(id, answer) : reply(id, answer)
  },
  'thread/inject_items'(id) {
    if (mode === 'dies') process.exit(1)
    if (mode === 'forgets') refuse(id, -32001, 'no history today')
    else reply(id, {})
  },
  'turn/start'(id) {
    if (mode === 'refuses') return refuse(id, -32600, 'no turns today')
    log(`started ${turnId}`)
    reply(id, { turn: { id: turnId } })
    return mode === 'forgets' ? undefined : runTurn()
  },
  'turn/interrupt'(id, params) {
    log(`interrupted ${params.turnId}`)
    reply(id, {})
    const turn = { id: turnId, status: 'interrupted', items: [], error: null }
    send({ method: 'turn/completed', params: { threadId, turn } })
  },
  'thread/unsubscribe'(id) {
    log('unsubscribed')
    reply(id, {})
  },
}

if (process.argv.includes('--version')) {
  process.stdout.write('codex-cli 0.169.0\n')
  process.exit()
}
const started = configuration()
log('\u001b[31mstarted\u001b[0m with sk-ant-REDACTED')
for await (const line of createInterface({ input: process.stdin })) {
  const { method, id, params, error, result } = JSON.parse(line)
  if (method in answers) answers[method]?.(id, params)
  else if (method !== undefined && id !== undefined) reply(id, {})
  else if (id === CALL_ID) failAfterCall(result)
  else if (id === APPROVAL_ID) {
    finishTurn(error ? `Refused with ${error.code}.` : `Decided: ${result.decision}.`)
  }
}
process.exit()
