import type { AnswerEnd, AnswerItem, AnswerItemEnd, AnswerSink } from './answer.ts'

/** Collects what a client receives that does not stream. */
export class AnswerItems implements AnswerSink {
  readonly isRetractable = true
  items: AnswerItem[] = []
  ended: AnswerEnd | undefined

  open(item: AnswerItem): void {
    this.items.push(item)
  }

  close(item: AnswerItem, how: AnswerItemEnd): void {
    if (how === 'withdrawn') this.items = this.items.filter((each) => each !== item)
  }

  answered(callId: string): void {
    this.items = this.items.filter(({ kind, callId: id }) => kind !== 'call' || id !== callId)
  }

  end(end: AnswerEnd): void {
    this.ended = end
  }
}
