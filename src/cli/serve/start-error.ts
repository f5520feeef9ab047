/** The server cannot start, for a reason that the message tells to people. */
export class StartError extends Error {
  override readonly name = 'StartError'
}
