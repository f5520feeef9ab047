import type { Clock } from '../async/clock.ts'

export interface FakeClock extends Clock {
  /**
   * Moves time on by `ms`. Tasks that fall due run in the order of their time, and promise jobs
   * settle between them, so code under test sees what it would see in real time, only sooner.
   */
  advance(ms: number): Promise<void>
  /** Sets the time of day forward, or back if negative. No timer notices, and no monotonic time passes. */
  step(ms: number): void
  /** How many tasks are waiting. */
  pending(): number
}

interface Task {
  at: number
  run: () => void
}

/** A clock that stands still until it is told to move. */
export function fakeClock(start = 0): FakeClock {
  let time = start
  let stepped = 0
  let tasks: Task[] = []

  function nextDue(until: number): Task | undefined {
    let next: Task | undefined
    // Strictly earlier: of two tasks for the same moment the one set first runs first.
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
      time = until
    },
    pending: () => tasks.length,
  }
}

// A macrotask runs only when no promise job is left, however long their chain is.
const macrotask: (task: () => void) => void =
  typeof setImmediate === 'function' ? setImmediate : (task) => setTimeout(task, 0)

function settlePromises(): Promise<void> {
  return new Promise((resolve) => {
    macrotask(resolve)
  })
}
