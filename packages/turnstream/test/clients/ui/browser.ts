/** A page of happy-dom as the globals of this process, for libraries that look for them. */
import { onTestFinished } from 'vitest'
import { load } from './packages.ts'

export interface Page {
  readonly document: Document
  /** The text that the page shows. */
  readonly text: () => string
  readonly find: (selector: string) => HTMLElement
  /** Types into a field, as a user does. */
  readonly type: (selector: string, text: string) => void
  /** Submits the form. */
  readonly submit: () => void
}

interface HappyWindow extends Window {
  readonly happyDOM: { readonly close: () => Promise<void> }
  readonly Event: typeof Event
}

/** Names of the page that replace those of Node, or that Node does not have. */
const NAMES = [
  ...['window', 'document', 'location', 'localStorage', 'navigator', 'history'],
  ...['requestAnimationFrame', 'cancelAnimationFrame', 'getComputedStyle', 'matchMedia'],
  ...['addEventListener', 'removeEventListener', 'getSelection'],
  ...['Node', 'Element', 'HTMLElement', 'HTMLIFrameElement', 'HTMLInputElement', 'HTMLFormElement'],
  ...['HTMLTextAreaElement', 'SVGElement', 'Text', 'ShadowRoot', 'FormData', 'Event', 'InputEvent'],
  ...['KeyboardEvent', 'MouseEvent', 'CustomEvent', 'MutationObserver', 'ResizeObserver'],
  ...['IntersectionObserver', 'DOMRect', 'CSS'],
]

/** Opens a page until the end of the test. The globals stay: React works on after the last test. */
export function openPage(): Page {
  const { Window } = load('happy-dom') as { Window: new (options: object) => HappyWindow }
  const window = new Window({ url: 'http://localhost:5173/' })
  for (const name of NAMES) {
    const value: unknown = name === 'window' ? globalThis : Reflect.get(window, name)
    const isMethod = typeof value === 'function' && /^[a-z]/.test(name)
    Object.defineProperty(globalThis, name, {
      value: isMethod ? value.bind(window) : value,
      ...{ configurable: true, writable: true },
    })
  }
  onTestFinished(async () => {
    await window.happyDOM.close()
    // A closed page is hidden and draws nothing, and the clients of later tests would wait for it.
    Object.defineProperty(window.document, 'hidden', { value: false, configurable: true })
    Object.defineProperty(globalThis, 'requestAnimationFrame', {
      value: setImmediate,
      ...{ configurable: true, writable: true },
    })
  })
  const { document } = window
  const find = (selector: string) => {
    const found = document.querySelector<HTMLElement>(selector)
    if (found === null) throw new Error(`no ${selector} in ${document.body.innerHTML}`)
    return found
  }
  return {
    document,
    text: () => document.body.textContent,
    find,
    submit: () => (find('form') as HTMLFormElement).requestSubmit(),
    type(selector, text) {
      const field = find(selector)
      // React replaces the setter of the element itself, to notice programs that set it.
      Reflect.set(Object.getPrototypeOf(field) as object, 'value', text, field)
      field.dispatchEvent(new window.Event('input', { bubbles: true }))
    },
  }
}
