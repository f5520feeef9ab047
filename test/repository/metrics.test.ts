/** docs/operations.md, the dashboard and the rules speak of the metrics that there are. */
import { describe, expect, test } from 'vitest'
import { METRICS } from '../../packages/turnstream/src/server/metrics/definitions.ts'
import { read } from './sources.ts'
import { section, tableRows } from './tables.ts'

interface Metric {
  readonly type: string
  readonly help: string
  readonly labels?: readonly string[]
}

const metrics = Object.entries(METRICS).map(([name, metric]): [string, Metric] => [
  `turnstream_${name}`,
  metric,
])
const metricsSection = section(read('docs/operations.md'), 'Metrics')
const rows = tableRows(metricsSection)

/** The names by which the series of a metric can be asked for. */
const SERIES = new Map(
  metrics.flatMap(([name, { type, labels = [] }]) =>
    type === 'histogram'
      ? ['_bucket', '_sum', '_count'].map((end): [string, readonly string[]] => [
          name + end,
          end === '_bucket' ? [...labels, 'le'] : labels,
        ])
      : [[name, labels] as [string, readonly string[]]],
  ),
)

/** What Prometheus adds to every series. */
const ADDED = ['instance', 'job']

/** Whatever an expression asks for that is not there. */
function faultsOf(expression: string): string[] {
  const asked = [...expression.matchAll(/\b(turnstream_\w+)(?:\{([^}]*)\})?/g)]
  if (asked.length === 0) return [`no metric in ${expression}`]
  const labels = asked.flatMap(([, name = '', inner = '']) => {
    const known = SERIES.get(name)
    if (known === undefined) return [`there is no ${name}`]
    const given = [...inner.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = '']) => label)
    return given.filter((label) => ![...known, ...ADDED].includes(label)).map(missing(name))
  })
  const all = new Set([...asked.flatMap(([, name = '']) => SERIES.get(name) ?? []), ...ADDED])
  const grouped = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list = '']) =>
    list.split(/,\s*/),
  )
  return [...labels, ...grouped.filter((label) => !all.has(label)).map(missing('by'))]
}

function missing(name: string): (label: string) => string {
  return (label) => `${name} has no ${label}`
}

/** Parentheses and braces close what they open. */
function isBalanced(expression: string): boolean {
  const open: string[] = []
  for (const sign of expression.replaceAll(/"[^"]*"/g, '').replaceAll(/[^(){}[\]]/g, '')) {
    if ('([{'.includes(sign)) open.push(sign)
    else if (open.pop() !== { ')': '(', ']': '[', '}': '{' }[sign]) return false
  }
  return open.length === 0
}

describe('the table of metrics', () => {
  test('lists all of them in order', () => {
    expect(rows.map(([name]) => name)).toEqual(metrics.map(([name]) => `\`${name}\``))
  })

  test.each(metrics)('%s has its type, labels and meaning', (name, { type, labels = [] }) => {
    const row = rows.find(([each]) => each === `\`${name}\``)
    const quoted = labels.map((label) => `\`${label}\``).join(', ')
    expect(row?.slice(1, 3)).toEqual([type, quoted])
    expect(row?.[3]).toMatch(/^[A-Z].*\.$/)
  })
})

describe('the names', () => {
  test.each(metrics)(
    '%s is valid in Prometheus and follows its conventions',
    (name, { type, help }) => {
      expect(name).toMatch(/^turnstream_[a-z_]+$/)
      expect(name.endsWith('_total')).toBe(type === 'counter')
      if (type === 'histogram') expect(name).toMatch(/_seconds$/)
      expect(help).toMatch(/^[A-Z].*\.$/)
    },
  )
})

describe('the dashboard', () => {
  interface Panel {
    id: number
    title: string
    targets: { expr: string; legendFormat: string }[]
  }
  const dashboard = JSON.parse(read('docs/grafana-dashboard.json')) as {
    panels: Panel[]
    templating: { list: { query: string }[] }
  }
  const { panels, templating } = dashboard

  test.each(panels.map((panel) => [panel.title, panel] as const))(
    '%s uses existing metrics',
    (_title, { targets }) => {
      expect(targets.length).toBeGreaterThan(0)
      for (const { expr } of targets) expect([expr, faultsOf(expr)]).toEqual([expr, []])
      for (const { expr } of targets) expect([expr, isBalanced(expr)]).toEqual([expr, true])
    },
  )

  test('shows every metric', () => {
    const shown = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)).join('\n')
    expect(metrics.map(([name]) => name).filter((name) => !shown.includes(name))).toEqual([])
  })

  test('has each panel once and lists instances by a metric', () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    expect(faultsOf(templating.list[1]?.query ?? '')).toEqual([])
  })
})

describe('the alert rules', () => {
  const [, rules = ''] = [...metricsSection.matchAll(/^```yaml\n(.*?)^```/gms)].map(
    ([, text = '']) => text,
  )
  const alerts = rules.split(/^ {6}- alert: /m).slice(1)

  test('are three, each with name, expression, duration and advice', () => {
    expect(alerts).toHaveLength(3)
    for (const alert of alerts) {
      expect(alert).toMatch(/^Turnstream\w+\n {8}expr: .*^ {8}for: \d+m\n {8}annotations:\n/ms)
      expect(alert).toMatch(/^ {10}summary: [A-Z].*\.$/m)
    }
  })

  test.each(alerts.map((alert) => [alert.split('\n')[0], alert] as const))(
    '%s uses existing metrics',
    (_name, alert) => {
      const expression = /expr: (.*?)^ {8}for:/ms.exec(alert)?.[1] ?? ''
      expect([faultsOf(expression), isBalanced(expression)]).toEqual([[], true])
    },
  )
})

describe('the expression checker', () => {
  test.each([
    ['sum(turnstream_nothing_total)', ['there is no turnstream_nothing_total']],
    ['turnstream_turns_running{colour="blue"}', ['turnstream_turns_running has no colour']],
    ['sum by (colour) (turnstream_turns_running)', ['by has no colour']],
    ['rate(turnstream_cancel_seconds[5m])', ['there is no turnstream_cancel_seconds']],
    ['vector(1)', ['no metric in vector(1)']],
    ['sum by (le) (turnstream_cancel_seconds_bucket{instance=~"a"})', []],
  ])('reports for %s: %j', (expression, faults) => {
    expect(faultsOf(expression)).toEqual(faults)
  })

  test.each([
    ['sum(a', false],
    ['sum(a))', false],
    ['a{b="("}', true],
    ['sum(a{b="c"}[5m])', true],
  ])('detects whether %s is balanced', (expression, isSo) => {
    expect(isBalanced(expression)).toBe(isSo)
  })
})
