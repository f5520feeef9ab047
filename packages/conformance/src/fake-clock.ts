import type { Clock } from '@turnstream/core/internal/async/clock'

export interface FakeClock extends Clock {
  /**
   * Advances time by `ms`. Due tasks run in order of time, and promise jobs settle between them, so code sees
   * what it would see in real time.
   */
  advance(ms: number): Promise<void>
  /** Changes the time of day. Timers and monotonic time are unaffected. */
  step(ms: number): void
  /** The number of waiting tasks. */
  pending(): number
}

interface Task {
  at: number
  run: () => void
}

/** Creates a clock that moves only on `advance`. */
export function fakeClock(start = 0): FakeClock {
  let time = start
  let stepped = 0
  let tasks: Task[] = []

  function nextDue(until: number): Task | undefined {
    let next: Task | undefined
    // Strictly earlier: of two tasks at the same time, the one set first runs first.
    for (const task of tasks) if (task.at <= until && (!next || task.at < next.at)) next = task
    return next
  }

  return {
    now: () => time + stepped,
    monotonic: () => time,
    step(ms) {
      stepped += ms
    },
    after(ms, run) {
      const task = { at: time + Math.max(0, ms), run }
      tasks.push(task)
      return () => {
        tasks = tasks.filter((other) => other !== task)
      }
    },
    async advance(ms) {
      const until = time + ms
      await settlePromises()
      for (let task = nextDue(until); task; task = nextDue(until)) {
        const due = task
        tasks = tasks.filter((other) => other !== due)
        time = Math.max(time, due.at)
        due.run()
        await settlePromises()
      }
      // Several may advance it at the same time.
      time = Math.max(time, until)
    },
    pending: () => tasks.length,
  }
}

// A macrotask runs only when no promise job is left.
const macrotask: (task: () => void) => void =
  typeof setImmediate === 'function' ? setImmediate : (task) => setTimeout(task, 0)

function settlePromises(): Promise<void> {
  return new Promise((resolve) => {
    macrotask(resolve)
  })
}
