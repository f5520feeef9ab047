/** Paths of the gateway. A test compares them with those of `protocol/names.ts`, which a page does not load. */
const encode = encodeURIComponent
const run = (runId: string) => `/api/v2/runs/${encode(runId)}`

export const SUBMIT_PATH = '/api/v2/submit'
export const THREADS_PATH = '/api/v2/threads'
export const threadPath = (threadId: string) => `${THREADS_PATH}/${encode(threadId)}`
export const cancelPath = (runId: string) => `${run(runId)}/cancel`
export const approvalPath = (runId: string, approvalId: string) =>
  `${run(runId)}/approvals/${encode(approvalId)}`
export const turnOutputsPath = (turnId: string) => `/xapi/turns/${encode(turnId)}`
export const threadOutputsPath = (threadId: string) => `/xapi/threads/${encode(threadId)}`
