export function generateEventId(): string {
  return crypto.randomUUID()
}
