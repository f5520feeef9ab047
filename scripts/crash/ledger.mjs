// What the store acknowledged to the processes of a crash run, from their journals.

/** @typedef {import('./journal.mjs').Entry} Entry */

/**
 * @typedef {object} Promised
 * @property {number} number
 * @property {boolean} created
 * @property {{ head: number, sealed: boolean }} events
 * @property {{ head: number, sealed: boolean, byKey: Map<string, { seq: number, digest: string }> }} processed
 */

export class Ledger {
  /** @type {Map<number, Promised>} */
  turns = new Map()
  /** How many calls ended each orphan. @type {Map<string, number>} */
  endings = new Map()
  /** @type {string[]} */
  failures = []
  /** Records that were acknowledged. */
  acknowledged = 0

  /** @param {Entry} entry */
  take(entry) {
    switch (entry[0]) {
      case 'creating':
        this.#turn(entry[1])
        break
      case 'created':
        this.#turn(entry[1]).created = true
        break
      case 'events':
        this.#takeEvents(this.#turn(entry[1]), entry)
        break
      case 'processed':
        this.#takeProcessed(this.#turn(entry[1]), entry)
        break
      case 'ended':
        this.endings.set(entry[1], (this.endings.get(entry[1]) ?? 0) + 1)
        break
      case 'failed':
        this.failures.push(entry[1])
        break
    }
  }

  /** @param {Promised} turn @param {Extract<Entry, ['events', ...unknown[]]>} entry */
  #takeEvents(turn, [, , head, sealed]) {
    this.acknowledged += head - turn.events.head
    turn.events = { head, sealed }
  }

  /** @param {Promised} turn @param {Extract<Entry, ['processed', ...unknown[]]>} entry */
  #takeProcessed({ processed }, [, , seq, key, digest, sealed]) {
    this.acknowledged += 1
    processed.head = Math.max(processed.head, seq)
    processed.sealed ||= sealed
    const before = processed.byKey.get(key)
    if (before === undefined || before.seq < seq) processed.byKey.set(key, { seq, digest })
  }

  /** @param {number} number */
  #turn(number) {
    const known = this.turns.get(number)
    if (known !== undefined) return known
    /** @type {Promised} */
    const turn = {
      number,
      created: false,
      events: { head: 0, sealed: false },
      processed: { head: 0, sealed: false, byKey: new Map() },
    }
    this.turns.set(number, turn)
    return turn
  }
}
