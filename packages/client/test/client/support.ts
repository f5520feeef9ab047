import type { PageLifecycle } from '../../src/index.ts'
import type { Locks } from '../../src/share.ts'

/** The response to a request, with its body cut after so many bytes. */
export async function cutAfter(bytes: number, response: Response): Promise<Response> {
  const reader = response.body?.getReader()
  let left = bytes
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
      if (done) return controller.close()
      controller.enqueue(value.subarray(0, left))
      left -= value.length
      if (left > 0) return
      await reader?.cancel()
      controller.error(new TypeError('Load failed'))
    },
    cancel: (reason) => reader?.cancel(reason),
  })
  const { status, headers } = response
  return new Response(body, { status, headers })
}

/** A page that a test hides, shows and draws. */
export class FakePage implements PageLifecycle {
  hidden = false
  readonly listeners = new Set<() => void>()
  readonly frames = new Set<() => void>()

  readonly isHidden = () => this.hidden

  readonly onWake = (listener: () => void, onHide?: () => void) => {
    const wake = () => (this.hidden ? onHide?.() : listener())
    this.listeners.add(wake)
    return () => this.listeners.delete(wake)
  }

  readonly nextFrame = (task: () => void) => {
    this.frames.add(() => task())
  }

  hide(): void {
    this.hidden = true
    this.wake()
  }

  show(): void {
    this.hidden = false
    this.wake()
  }

  wake(): void {
    for (const listener of [...this.listeners]) listener()
  }

  draw(): void {
    for (const task of [...this.frames]) {
      this.frames.delete(task)
      task()
    }
  }
}

/** As much of the Web Locks API as we use: exclusive locks, granted in the order of the requests. Node 20 has none. */
export class TestLocks implements Locks {
  readonly names: string[] = []
  /** Of locks that are held or requested. */
  pending = 0
  readonly #last = new Map<string, Promise<void>>()

  async request(...[name, { signal }, callback]: Parameters<Locks['request']>): Promise<void> {
    this.names.push(name)
    this.pending += 1
    const before = this.#last.get(name) ?? Promise.resolve()
    let release = () => {}
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    this.#last.set(
      name,
      before.then(() => released),
    )
    try {
      await new Promise<void>((resolve, reject) => {
        signal.throwIfAborted()
        signal.addEventListener('abort', () => reject(signal.reason))
        void before.then(resolve)
      })
      await callback()
    } finally {
      this.pending -= 1
      release()
    }
  }
}
