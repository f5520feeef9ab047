import { type ComponentChildren, Fragment, h } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { CopyButton } from '../copy-button.tsx'
import { useStableSelection } from '../stable-selection.ts'
import { codeParts } from './code-parts.ts'

type Highlighted = ReturnType<typeof import('./highlight.ts').highlight>

/** Plain while it is written, highlighted in idle time when its fence is closed. */
export function CodeBlock(props: { code: string; language?: string; isClosed: boolean }) {
  const { code, isClosed } = props
  const language = props.language?.trim().split(/\s/, 1)[0] ?? ''
  const [highlighted, setHighlighted] = useState<{ code: string; nodes: Highlighted }>()

  useEffect(() => {
    if (!isClosed || language === '' || code.length > MAX_HIGHLIGHTED) return undefined
    let isWanted = true
    const show = async () => {
      const { highlight } = await import('./highlight.ts')
      const nodes: NonNullable<Highlighted> = []
      for (const part of codeParts(code)) {
        await untilIdle()
        const more = isWanted ? highlight(part, language) : undefined
        if (more === undefined) return
        nodes.push(...more)
      }
      if (isWanted) setHighlighted({ code, nodes })
    }
    void show()
    return () => {
      isWanted = false
    }
  }, [code, language, isClosed])

  const element = useRef<HTMLElement>(null)
  useStableSelection(element)
  const nodes = highlighted?.code === code ? highlighted.nodes : undefined
  return (
    <figure class="code">
      <figcaption>
        <span>{language || 'text'}</span>
        <CopyButton text={code} />
      </figcaption>
      <pre tabIndex={0} dir="ltr">
        <code ref={element}>{nodes === undefined ? code : toElements(nodes)}</code>
      </pre>
    </figure>
  )
}

/** Longer code stays plain. */
const MAX_HIGHLIGHTED = 50_000

function untilIdle(): Promise<unknown> {
  return new Promise((resolve) => {
    if (typeof requestIdleCallback === 'function') requestIdleCallback(resolve, { timeout: 1000 })
    else setTimeout(resolve, 50)
  })
}

function toElements(nodes: NonNullable<Highlighted>): ComponentChildren {
  return nodes.map((node) => {
    if (node.type === 'text') return node.value
    if (node.type !== 'element') return null
    const names = node.properties['className']
    const props = { class: Array.isArray(names) ? names.join(' ') : undefined }
    return h(Fragment, null, h('span', props, toElements(node.children)))
  })
}
