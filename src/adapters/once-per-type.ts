// The names come from outside: past this many the source is not new but broken, and remembering each of
// them would let it fill the memory.
const MAX_TYPES = 1000

/** Tells of each type once, however often it comes, and of no more than 1,000 of them. */
export function oncePerType(report: (type: string) => void = () => {}): (type: string) => void {
  const told = new Set<string>()
  return (type) => {
    if (told.size >= MAX_TYPES || told.has(type)) return
    told.add(type)
    report(type)
  }
}
