import type { Token, Tokens } from 'marked'
import type { ComponentChildren, VNode } from 'preact'
import { memo } from 'preact/compat'
import { useRef } from 'preact/hooks'
import { useStableSelection } from '../stable-selection.ts'
import { CodeBlock } from './code-block.tsx'
import { type MarkdownDocument, parseMarkdown } from './document.ts'
import { decodeEntities } from './entities.ts'
import { inlineTokensOf } from './lexer.ts'
import { useSlices, weightOf } from './slices.ts'

/** Text of a model as nodes. No HTML is parsed: what looks like HTML is shown as text. */
export function Markdown({ text, isFinal }: { text: string; isFinal: boolean }) {
  const previous = useRef<MarkdownDocument>(undefined)
  const parsed = parseMarkdown(text, { previous: previous.current, isFinal })
  previous.current = parsed
  const element = useRef<HTMLDivElement>(null)
  useStableSelection(element)
  const levels = headingLevels(parsed.blocks)
  const shown = useSlices(parsed.blocks, weightOf)
  return (
    <div class="markdown" ref={element}>
      {parsed.blocks
        .slice(0, shown)
        .map((block, index) =>
          block.type === 'space' ? null : (
            <Block
              key={index}
              block={block}
              level={levels[index]}
              isClosed={isFinal || index < parsed.blocks.length - 1}
            />
          ),
        )}
    </div>
  )
}

interface BlockProps {
  readonly block: Token
  /** Of a heading. */
  readonly level: number | undefined
  readonly isClosed: boolean
}

/** A block whose source did not change is not rendered again. */
const Block = memo(
  ({ block, level, isClosed }: BlockProps) => renderBlock(block, { level, isClosed, dir: 'auto' }),
  (before, after) =>
    before.isClosed === after.isClosed &&
    before.level === after.level &&
    before.block.type === after.block.type &&
    before.block.raw === after.block.raw,
)

/** The levels of headings below the title of the page. None is left out, whatever the model wrote. */
function headingLevels(tokens: readonly Token[]): readonly (number | undefined)[] {
  const open: number[] = []
  return tokens.map((token) => {
    if (token.type !== 'heading') return undefined
    const { depth } = token as Tokens.Heading
    while ((open.at(-1) ?? 0) >= depth) open.pop()
    return open.push(depth) + 1
  })
}

const HEADINGS = ['h2', 'h3', 'h4', 'h5', 'h6'] as const

interface Place {
  readonly level?: number | undefined
  readonly isClosed: boolean
  /** The text decides, for all that is inside of a quote or a list together. */
  readonly dir?: 'auto'
}

function renderBlock(token: Token, { level, isClosed, dir }: Place): VNode | null {
  switch (token.type) {
    case 'heading': {
      const text = inline(token.tokens)
      // Inside of a quote or a list it is not part of the outline.
      if (level === undefined)
        return (
          <p dir={dir}>
            <strong>{text}</strong>
          </p>
        )
      const Heading = HEADINGS[level - 2] ?? 'h6'
      return <Heading dir={dir}>{text}</Heading>
    }
    case 'code':
      return <CodeBlock code={token['text']} language={token['lang']} isClosed={isClosed} />
    case 'math':
      return (
        <p class="math" dir="ltr" translate={false}>
          {token['text']}
        </p>
      )
    case 'blockquote':
      return (
        <blockquote dir={dir}>
          <Blocks tokens={token.tokens ?? []} />
        </blockquote>
      )
    case 'list':
      return <List token={token as Tokens.List} dir={dir} />
    case 'table':
      return <Table token={token as Tokens.Table} />
    case 'hr':
      return <hr />
    case 'def':
    case 'space':
      return null
    case 'paragraph':
      return <p dir={dir}>{inline(token.tokens)}</p>
    case 'text':
      return <>{token.tokens === undefined ? plain(token) : inline(token.tokens)}</>
    default:
      return <p dir={dir}>{plain(token)}</p>
  }
}

function Blocks({ tokens }: { tokens: readonly Token[] }) {
  const shown = useSlices(tokens, weightOf)
  return <>{tokens.slice(0, shown).map((token) => renderBlock(token, { isClosed: true }))}</>
}

function List({ token, dir }: { token: Tokens.List; dir: 'auto' | undefined }) {
  const shown = useSlices(token.items, weightOf)
  const items = token.items.slice(0, shown).map((item, index) => <Item key={index} item={item} />)
  return token.ordered ? (
    <ol dir={dir} start={Number(token.start) || 1}>
      {items}
    </ol>
  ) : (
    <ul dir={dir}>{items}</ul>
  )
}

const Item = memo(
  ({ item }: { item: Tokens.ListItem }) =>
    item.task ? (
      <Task item={item} />
    ) : (
      <li>
        <Blocks tokens={item.tokens} />
      </li>
    ),
  (before, after) => before.item.raw === after.item.raw && before.item.loose === after.item.loose,
)

/** The first line is the label of the box. */
function Task({ item }: { item: Tokens.ListItem }) {
  const [first, ...rest] = item.tokens.filter(({ type }) => type !== 'checkbox')
  const hasLine = first?.type === 'text' || first?.type === 'paragraph'
  return (
    <li class="task">
      <label>
        <input type="checkbox" checked={item.checked ?? false} disabled />{' '}
        {hasLine ? inline(first.tokens) : <span class="hidden">Task</span>}
      </label>
      <Blocks tokens={first === undefined || hasLine ? rest : [first, ...rest]} />
    </li>
  )
}

function Table({ token }: { token: Tokens.Table }) {
  const { header, rows } = token
  const shown = useSlices(rows, ({ length }) => length / 3)
  return (
    <div class="table" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <Row cells={header} />
        </thead>
        <tbody>
          {rows.slice(0, shown).map((cells, index) => (
            <Row key={index} cells={cells} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

const Row = memo(
  ({ cells }: { cells: readonly Tokens.TableCell[] }) => (
    <tr>
      {cells.map(({ header, align, tokens }) => {
        const Cell = header ? 'th' : 'td'
        return (
          <Cell class={align ?? undefined} scope={header ? 'col' : undefined} dir="auto">
            {inline(tokens)}
          </Cell>
        )
      })}
    </tr>
  ),
  (before, after) =>
    before.cells.length === after.cells.length &&
    before.cells.every(
      ({ text, align }, index) =>
        text === after.cells[index]?.text && align === after.cells[index].align,
    ),
)

function inline(tokens: readonly Token[] | undefined): ComponentChildren {
  return inlineTokensOf(tokens).map(renderInline)
}

function renderInline(token: Token): ComponentChildren {
  switch (token.type) {
    case 'strong':
      return <strong>{inline(token.tokens)}</strong>
    case 'em':
      return <em>{inline(token.tokens)}</em>
    case 'del':
      return <del>{inline(token.tokens)}</del>
    case 'codespan':
      return <code>{token['text']}</code>
    case 'math':
      return (
        <span class="math" dir="ltr" translate={false}>
          {token['text']}
        </span>
      )
    case 'br':
      return <br />
    case 'link':
      return <Link href={token['href']}>{inline(token.tokens)}</Link>
    case 'image':
      // A picture could carry data away with its address, so it is loaded only on request.
      return (
        <Link
          href={token['href']}
        >{`Image: ${decodeEntities(token['text']) || token['href']}`}</Link>
      )
    case 'checkbox':
      return null
    case 'text':
      return token.tokens === undefined ? plain(token) : inline(token.tokens)
    case 'escape':
      return token['text']
    default:
      return plain(token)
  }
}

/** Raw HTML is shown as it was written. */
function plain(token: Token): string {
  if (token.type === 'html' || !('text' in token)) return token.raw
  return decodeEntities(String(token.text))
}

const SAFE_ADDRESS = /^(?:https?:\/\/|mailto:)/i

function Link({ href, children }: { href: string; children: ComponentChildren }) {
  if (!SAFE_ADDRESS.test(href)) return <>{children}</>
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  )
}
