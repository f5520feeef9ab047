import type * as ReactTypes from 'react'
import { onTestFinished, vi } from 'vitest'
import { openPage, type Page } from '../../../turnstream/test/clients/ui/browser.ts'
import { load } from '../../../turnstream/test/clients/ui/packages.ts'
import type * as Hooks from '../../src/react.ts'

interface Root {
  render(node: ReactTypes.ReactNode): void
  unmount(): void
}

export interface ReactPage extends Page {
  readonly React: typeof ReactTypes
  readonly hooks: typeof Hooks
  /** Renders into the page until the end of the test. */
  readonly mount: (node: ReactTypes.ReactNode) => Root
  readonly renderToString: (node: ReactTypes.ReactNode) => string
  /** Takes over what a server rendered. Collects what React had to correct. */
  readonly hydrate: (node: ReactTypes.ReactNode, html: string) => { errors: unknown[] }
}

/** A page with the hooks, both with the same React. */
export async function openReactPage(version: 'newest' | 18): Promise<ReactPage> {
  const page = openPage()
  const React = load('react', version) as typeof ReactTypes
  vi.resetModules()
  vi.doMock('react', () => React)
  onTestFinished(() => {
    vi.doUnmock('react')
  })
  const hooks = await import('../../src/react.ts')
  const { createRoot, hydrateRoot } = load('react-dom/client', version) as {
    createRoot: (container: Element) => Root
    hydrateRoot: (container: Element, node: ReactTypes.ReactNode, options: object) => Root
  }
  const { renderToString } = load('react-dom/server', version) as Pick<ReactPage, 'renderToString'>

  function container(html = ''): Element {
    const element = page.document.createElement('div')
    element.innerHTML = html
    page.document.body.append(element)
    return element
  }
  function untilFinished(mounted: Root): Root {
    onTestFinished(() => mounted.unmount())
    return mounted
  }
  return {
    ...page,
    React,
    hooks,
    renderToString,
    mount(node) {
      const mounted = untilFinished(createRoot(container()))
      mounted.render(node)
      return mounted
    },
    hydrate(node, html) {
      const errors: unknown[] = []
      const onRecoverableError = (error: unknown) => errors.push(error)
      untilFinished(hydrateRoot(container(html), node, { onRecoverableError }))
      return { errors }
    },
  }
}
