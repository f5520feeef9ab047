/**
 * As much of Playwright's types as the tests use. Its own are not there before the tests install it, and types are
 * checked without it.
 */

export interface Playwright {
  readonly chromium: { launch(options: LaunchOptions): Promise<Browser> }
}

interface LaunchOptions {
  readonly executablePath: string
  readonly args: readonly string[]
  readonly ignoreDefaultArgs: readonly string[]
  readonly env: NodeJS.ProcessEnv
}

export interface Browser {
  newContext(): Promise<BrowserContext>
  newBrowserCDPSession(): Promise<CDPSession>
  startTracing(page: Page, options: { readonly categories: readonly string[] }): Promise<void>
  stopTracing(): Promise<Buffer>
  close(): Promise<void>
}

/** A profile of its own: storage, locks and channels. Its pages are tabs. */
export interface BrowserContext {
  newPage(): Promise<Page>
  newCDPSession(page: Page): Promise<CDPSession>
  setOffline(isOffline: boolean): Promise<void>
  on(event: 'request', listener: (request: BrowserRequest) => void): void
  on(event: 'page', listener: (page: Page) => void): void
  close(): Promise<void>
}

interface BrowserRequest {
  method(): string
  url(): string
}

export interface Page {
  goto(url: string): Promise<unknown>
  goBack(): Promise<unknown>
  reload(): Promise<unknown>
  bringToFront(): Promise<void>
  close(): Promise<void>
  url(): string
  context(): BrowserContext
  /** Runs a function before the scripts of every page. */
  addInitScript(run: () => void): Promise<void>
  /** Runs a function in the page. It is sent as text, so it sees nothing of the test. */
  evaluate<T>(run: () => T | Promise<T>): Promise<T>
  evaluate<T, A>(run: (argument: A) => T | Promise<T>, argument: A): Promise<T>
  readonly keyboard: { press(key: string): Promise<void>; type(text: string): Promise<void> }
  locator(selector: string): Locator
  getByRole(role: string, options?: { readonly name?: string | RegExp }): Locator
  setViewportSize(size: { readonly width: number; readonly height: number }): Promise<void>
  screenshot(options: { readonly path: string; readonly fullPage?: boolean }): Promise<Buffer>
  on(event: 'pageerror', listener: (error: Error) => void): void
}

interface Locator {
  getByRole(role: string, options?: { readonly name?: string | RegExp }): Locator
  click(): Promise<void>
  fill(text: string): Promise<void>
  press(key: string): Promise<void>
  setInputFiles(file: { name: string; mimeType: string; buffer: Buffer }): Promise<void>
  count(): Promise<number>
  first(): Locator
  last(): Locator
  getAttribute(name: string): Promise<string | null>
  textContent(): Promise<string | null>
  innerText(): Promise<string>
  allInnerTexts(): Promise<string[]>
}

/** The Chrome DevTools Protocol, for what Playwright has no function for. */
interface CDPSession {
  send(method: string, parameters?: object): Promise<unknown>
}
