// The samples of a soak as an SVG: a column for each gateway, a row for each measure.

/** @typedef {import('./gateway.mjs').Sample} Sample */
/** @typedef {{ name: string, samples: readonly Sample[] }} Series */
/** `ms`: how long it lasted. @typedef {{ at: number, what: string, ms?: number }} Incident */

const WIDTH = 560
const HEIGHT = 150
const PAD = { left: 64, top: 34, right: 16, bottom: 26 }

const ROWS = /** @type {const} */ ([
  { title: 'RSS, MB', value: (/** @type {Sample} */ { rss }) => rss / 2 ** 20 },
  {
    title: 'heap after a collection, MB',
    value: (/** @type {Sample} */ { heap }) => heap / 2 ** 20,
  },
  { title: 'open file descriptors', value: (/** @type {Sample} */ { handles }) => handles },
  { title: 'event-loop delay p99, ms', value: (/** @type {Sample} */ { delay }) => delay },
  {
    title: 'waited for a CPU, ms per second',
    value: (/** @type {Sample} */ { starved }) => starved,
  },
  { title: 'running turns', value: (/** @type {Sample} */ { running }) => running },
])

const COLOURS = { step: '#b26a00', outage: '#b00020', kill: '#6750a4' }

/** @param {readonly Series[]} series @param {readonly Incident[]} incidents */
export function plot(series, incidents) {
  const cells = series.flatMap((each, column) =>
    ROWS.map((row, index) => cell(each, row, incidents, { x: column * WIDTH, y: index * HEIGHT })),
  )
  const legend = Object.entries(COLOURS)
    .map(([what, colour], index) =>
      text(PAD.left + index * 90, ROWS.length * HEIGHT + 16, `| ${what}`, colour),
    )
    .join('')
  const size = `width="${series.length * WIDTH}" height="${ROWS.length * HEIGHT + 26}"`
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#fff"/>
${cells.join('\n')}
${legend}
</svg>
`
}

/**
 * @param {Series} series
 * @param {(typeof ROWS)[number]} row
 * @param {readonly Incident[]} incidents
 * @param {{ x: number, y: number }} place
 */
function cell({ name, samples }, { title, value }, incidents, { x, y }) {
  const from = samples[0]?.at ?? 0
  const span = Math.max(1, (samples.at(-1)?.at ?? 0) - from)
  const values = samples.map(value)
  const top = Math.max(1, ...values)
  const inner = { width: WIDTH - PAD.left - PAD.right, height: HEIGHT - PAD.top - PAD.bottom }
  const left = x + PAD.left
  const bottom = y + PAD.top + inner.height
  const across = (/** @type {number} */ at) => left + ((at - from) / span) * inner.width
  const points = samples.map(
    ({ at }, index) =>
      `${across(at).toFixed(1)},${(bottom - ((values[index] ?? 0) / top) * inner.height).toFixed(1)}`,
  )
  const ticks = incidents
    .filter(({ at }) => at >= from && at <= from + span)
    .map(({ at, what }) => {
      const colour = COLOURS[/** @type {keyof typeof COLOURS} */ (what)]
      return `<path d="M${across(at).toFixed(1)} ${bottom}v-4" stroke="${colour}"/>`
    })
  return [
    text(left, y + PAD.top - 8, `${name}: ${title}`, '#000'),
    text(x + 6, y + PAD.top + 6, top.toFixed(top < 10 ? 1 : 0), '#555'),
    text(x + 6, bottom, '0', '#555'),
    text(left + inner.width - 50, bottom + 16, `${(span / 60_000).toFixed(1)} min`, '#555'),
    `<path d="M${left} ${y + PAD.top}V${bottom}H${left + inner.width}" fill="none" stroke="#999"/>`,
    `<polyline points="${points.join(' ')}" fill="none" stroke="#1565c0"/>`,
    ...ticks,
  ].join('\n')
}

/** @param {number} x @param {number} y @param {string} words @param {string} colour */
function text(x, y, words, colour) {
  return `<text x="${x}" y="${y}" fill="${colour}">${words}</text>`
}
