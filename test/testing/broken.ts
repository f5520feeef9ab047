import type { TurnLog } from '../../src/log/turn-log.ts'

export type Break = (log: TurnLog) => Partial<TurnLog>

/** A log that does what another does, except for what is given. */
export function broken(log: TurnLog, change: Break): TurnLog {
  const changed = change(log)
  return new Proxy(log, {
    get(target, name) {
      const source = Object.hasOwn(changed, name) ? changed : target
      const value: unknown = Reflect.get(source, name, source)
      return typeof value === 'function' ? value.bind(source) : value
    },
  })
}
