/** What happens to tabs that nobody looks at. */
import type { BrowserContext, Page } from './playwright.ts'

interface Session {
  send(method: string, parameters?: object): Promise<unknown>
}

/** Playwright keeps every page visible by a command of its own session, which has no public name. */
interface Internals {
  readonly _connection: {
    toImpl(page: Page): {
      readonly delegate: { readonly _mainFrameSession: { readonly _client: Session } }
    }
  }
}

export interface HiddenPage {
  /** Stops its timers and tasks, as browsers do to save power. */
  freeze(): Promise<void>
  show(): Promise<void>
}

/** Shows another page of the window in place of this one, or minimizes the window. */
export async function hidePage(
  context: BrowserContext,
  page: Page,
  other?: Page,
): Promise<HiddenPage> {
  const { _connection } = page as unknown as Internals
  const { _mainFrameSession } = _connection.toImpl(page).delegate
  const { _client: own } = _mainFrameSession
  await own.send('Emulation.setFocusEmulationEnabled', { enabled: false })
  const session = await context.newCDPSession(page)
  const target = (await session.send('Browser.getWindowForTarget')) as { windowId: number }
  const setWindow = (windowState: string) =>
    session.send('Browser.setWindowBounds', { windowId: target.windowId, bounds: { windowState } })
  if (other) await other.bringToFront()
  else await setWindow('minimized')
  return {
    async freeze() {
      await session.send('Page.setWebLifecycleState', { state: 'frozen' })
    },
    async show() {
      await session.send('Page.setWebLifecycleState', { state: 'active' })
      await setWindow('normal')
    },
  }
}
