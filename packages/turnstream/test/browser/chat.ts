/** The page of packages/turnstream/test/browser/site/chat.html, as tests use it. */
import { expect } from 'vitest'
import { untilTrue } from '../cli/support.ts'
import type { BrowserContext, Page } from './playwright.ts'

export interface ShownTurn {
  readonly turnId: string
  readonly status: string
  /** Of the error that ended it. */
  readonly code?: string
  readonly text: string
}

/** What the page tells of itself. */
interface App {
  readonly auths: number
  readonly returns: readonly boolean[]
  readonly statuses: readonly string[]
  readonly faults: readonly object[]
  submit(prompt: string): string
  cancel(turnId: string): Promise<void>
  turns(): readonly ShownTurn[]
}

declare const app: App

export interface ChatOptions {
  readonly token?: string
  /** What `onAuth` returns. */
  readonly freshToken?: string
  /** `none` leaves out the text, whose layout takes longer than everything else. */
  readonly render?: 'none'
  /** Lets all tabs use one connection. */
  readonly share?: 'yes'
}

export class Chat {
  readonly page: Page

  private constructor(page: Page) {
    this.page = page
  }

  /** Opens a tab. */
  static async open(
    context: BrowserContext,
    { site, ...query }: ChatOptions & { site: string; gateway: string; thread: string },
  ): Promise<Chat> {
    const page = await context.newPage()
    await page.goto(`${site}/chat.html?${new URLSearchParams(query)}`)
    await untilTrue(() => page.evaluate(() => 'app' in globalThis))
    return new Chat(page)
  }

  submit(prompt: string): Promise<string> {
    return this.page.evaluate((text) => app.submit(text), prompt)
  }

  cancel(turnId: string): Promise<void> {
    return this.page.evaluate((id) => app.cancel(id), turnId)
  }

  turns(): Promise<readonly ShownTurn[]> {
    return this.page.evaluate(() => app.turns())
  }

  /** How often `onAuth` was called. */
  auths(): Promise<number> {
    return this.page.evaluate(() => app.auths)
  }

  /** Whether each `pageshow` was a return from the back/forward cache. */
  returns(): Promise<readonly boolean[]> {
    return this.page.evaluate(() => app.returns)
  }

  /** Each status of the connection, in order. */
  statuses(): Promise<readonly string[]> {
    return this.page.evaluate(() => app.statuses)
  }

  visibility(): Promise<string> {
    return this.page.evaluate(() => document.visibilityState)
  }

  /** Waits by a timer of the page, as late as it runs. */
  waitInPage(ms: number): Promise<unknown> {
    return this.page.evaluate((time) => new Promise((resolve) => setTimeout(resolve, time)), ms)
  }

  /** Keeps the page busy for more than 50 ms of CPU time. */
  work(): Promise<number> {
    return this.page.evaluate(() => {
      let sum = 0
      for (let count = 0; count < 2e8; count += 1) sum += Math.sqrt(count)
      return sum
    })
  }

  /** Goes back in the history. Playwright's own function waits for a load, which a cached page does not have. */
  async goBack(): Promise<void> {
    const url = this.page.url()
    await this.page.evaluate(() => setTimeout(() => history.back()))
    await untilTrue(() => this.page.url() !== url)
    await untilTrue(() => this.page.evaluate(() => 'app' in globalThis))
  }
}

/** Waits until the last turn shows this text. Fails if a text was ever not continued. */
export async function checkShows({ page }: Chat, text: string): Promise<void> {
  await expect.poll(() => page.evaluate(() => app.turns().at(-1)?.text)).toBe(text)
  expect(await page.evaluate(() => app.faults)).toEqual([])
}

/** Waits until the last turn ended so. */
export async function checkEnds(
  { page }: Chat,
  status: string,
  options: { readonly timeout?: number } = {},
): Promise<void> {
  await expect.poll(() => page.evaluate(() => app.turns().at(-1)?.status), options).toBe(status)
}
