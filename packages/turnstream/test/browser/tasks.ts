/** How long the main thread of a page was busy, from a trace of the browser. */

interface TraceEvent {
  readonly name: string
  readonly pid: number
  readonly tid: number
  /** In µs. */
  readonly dur?: number
  /** Of the thread's CPU time, in µs: what a busy machine takes away is not in it. */
  readonly tdur?: number
  readonly args?: { readonly name?: string }
}

export const TRACE_CATEGORIES = [
  'toplevel',
  'devtools.timeline',
  'disabled-by-default-devtools.timeline',
]

export interface LongestTask {
  readonly wallMs: number
  readonly cpuMs: number
  readonly tasks: number
}

export function longestTask(trace: Buffer): LongestTask {
  const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: readonly TraceEvent[] }
  const threads = new Set(
    traceEvents
      .filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain')
      .map(({ pid, tid }) => `${pid}/${tid}`),
  )
  let longest = { wallMs: 0, cpuMs: 0, tasks: 0 }
  for (const { name, pid, tid, dur = 0, tdur = 0 } of traceEvents) {
    if (!name.endsWith('RunTask') || !threads.has(`${pid}/${tid}`)) continue
    longest = {
      wallMs: Math.max(longest.wallMs, dur / 1000),
      cpuMs: Math.max(longest.cpuMs, tdur / 1000),
      tasks: longest.tasks + 1,
    }
  }
  return longest
}
