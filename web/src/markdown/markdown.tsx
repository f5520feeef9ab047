import type { Token, Tokens } from 'marked'
import type { ComponentChildren, VNode } from 'preact'
import { memo } from 'preact/compat'
import { useRef } from 'preact/hooks'
import { CodeBlock } from './code-block.tsx'
import { type MarkdownDocument, parseMarkdown } from './document.ts'
import { decodeEntities } from './entities.ts'

/** Text of a model as nodes. No HTML is parsed: what looks like HTML is shown as text. */
export function Markdown({ text, isFinal }: { text: string; isFinal: boolean }) {
  const previous = useRef<MarkdownDocument>(undefined)
  const parsed = parseMarkdown(text, { previous: previous.current, isFinal })
  previous.current = parsed
  return (
    <div class="markdown">
      {parsed.blocks.map((block, index) =>
        block.type === 'space' ? null : (
          <Block key={index} block={block} isClosed={isFinal || index < parsed.blocks.length - 1} />
        ),
      )}
    </div>
  )
}

/** A block whose source did not change is not rendered again. */
const Block = memo(
  ({ block, isClosed }: { block: Token; isClosed: boolean }) => renderBlock(block, isClosed),
  (before, after) =>
    before.isClosed === after.isClosed &&
    before.block.type === after.block.type &&
    before.block.raw === after.block.raw,
)

const HEADINGS = ['h2', 'h3', 'h4', 'h5', 'h6', 'h6'] as const

function renderBlock(token: Token, isClosed: boolean): VNode | null {
  switch (token.type) {
    case 'heading': {
      const Heading = HEADINGS[(token as Tokens.Heading).depth - 1] ?? 'h6'
      return <Heading>{inline(token.tokens)}</Heading>
    }
    case 'code':
      return <CodeBlock code={token['text']} language={token['lang']} isClosed={isClosed} />
    case 'blockquote':
      return <blockquote>{blocks(token.tokens)}</blockquote>
    case 'list':
      return <List token={token as Tokens.List} />
    case 'table':
      return <Table token={token as Tokens.Table} />
    case 'hr':
      return <hr />
    case 'def':
    case 'space':
      return null
    case 'paragraph':
      return <p>{inline(token.tokens)}</p>
    case 'text':
      return <>{token.tokens === undefined ? plain(token) : inline(token.tokens)}</>
    default:
      return <p>{plain(token)}</p>
  }
}

function blocks(tokens: readonly Token[] = []): ComponentChildren {
  return tokens.map((token) => renderBlock(token, true))
}

function List({ token }: { token: Tokens.List }) {
  const items = token.items.map((item) => (
    <li class={item.task ? 'task' : undefined}>
      {item.task && <input type="checkbox" checked={item.checked ?? false} disabled />}
      {blocks(item.tokens.filter(({ type }) => type !== 'checkbox'))}
    </li>
  ))
  return token.ordered ? <ol start={Number(token.start) || 1}>{items}</ol> : <ul>{items}</ul>
}

function Table({ token }: { token: Tokens.Table }) {
  return (
    <div class="table" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            {token.header.map((cell) => (
              <th scope="col">{inline(cell.tokens)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row) => (
            <tr>
              {row.map((cell) => (
                <td>{inline(cell.tokens)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function inline(tokens: readonly Token[] = []): ComponentChildren {
  return tokens.map(renderInline)
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
