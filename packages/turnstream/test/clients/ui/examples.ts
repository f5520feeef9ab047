/** The React examples of examples/, bundled and mounted in a page, with no more than addresses changed. */
import { onTestFinished } from 'vitest'
import { read } from '../../../../../test/repository/sources.ts'
import { runBundle } from './bundle.ts'

interface Mounted {
  unmount(): void
}

/** What an example exports, and how to mount its component. */
type Example<Exports> = Exports & {
  readonly mount: (container: Element, props: object) => Mounted
}

const MOUNT = `
import { createElement, StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import * as example from './example.tsx'

export * from './example.tsx'
export function mount(container, props) {
  const root = createRoot(container)
  const Chat = example.default ?? example.Chat
  root.render(createElement(StrictMode, {}, createElement(Chat, props)))
  return root
}
`

/** Loads an example, with what `more` exports beside it. */
export function loadExample<Exports = object>(
  file: string,
  { url = '', more = '' }: { readonly url?: string; readonly more?: string },
): Promise<Example<Exports>> {
  const code = read(`examples/${file}`).replaceAll('http://127.0.0.1:4010', url)
  return runBundle({ 'entry.js': MOUNT + more, 'example.tsx': code })
}

/** Mounts an example until the end of the test, or until the page is left. */
export function mountExample({ mount }: Example<object>, props: object = {}) {
  const container = document.body.appendChild(document.createElement('div'))
  const root = mount(container, props)
  let isMounted = true
  const leave = () => {
    if (isMounted) root.unmount()
    isMounted = false
    container.remove()
  }
  onTestFinished(leave)
  return { leave }
}
