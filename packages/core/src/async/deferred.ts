/** A promise with the function that resolves it. */
export class Deferred<T = void> {
  resolve: (value: T) => void = () => {}
  readonly promise = new Promise<T>((resolve) => {
    this.resolve = resolve
  })
}
