/** The kinds of requests that no client should send. */
import type { OpenApiDocument } from '../../../../src/server/openapi.ts'
import { badJson } from './bad-json.ts'
import { ENCODINGS, HOSTS, LENGTHS, LINES, METHODS, TARGETS, VERSIONS } from './bad-words.ts'
import type { Dice } from './dice.ts'
import { cutUp, mutated } from './mutations.ts'
import { bytesOf, latin1, Requests, type WholeRequest } from './requests.ts'

/** Bytes in the pieces in which they are sent, and whether the client then hangs up. */
export interface Attack {
  readonly kind: string
  readonly pieces: readonly Buffer[]
  readonly hangsUp?: boolean
}

export class Generators {
  readonly #dice: Dice
  readonly #requests: Requests

  constructor(dice: Dice, document: OpenApiDocument) {
    this.#dice = dice
    this.#requests = new Requests(dice, document)
  }

  next(): Attack {
    const dice = this.#dice
    const [kind, make] = dice.pick(Object.entries(this.#kinds))
    const bytes = make()
    if (kind === 'cut off') {
      return { kind, pieces: [bytes.subarray(0, dice.below(bytes.length))], hangsUp: true }
    }
    const pieces = dice.oneIn(4) ? cutUp(bytes, dice) : [bytes]
    return { kind, pieces, hangsUp: dice.oneIn(20) }
  }

  readonly #kinds: Readonly<Record<string, () => Buffer>> = {
    'mutated bytes': () => mutated(bytesOf(this.#requests.next()), this.#dice),
    'mutated body': () =>
      this.#withBody(mutated(this.#requests.next('with a body').body, this.#dice)),
    noise: () => this.#dice.bytes(this.#dice.between(1, 600)),
    'bad JSON': () => this.#withBody(badJson(this.#dice)),
    'bad line': () => this.#withLine(this.#dice.pick(LINES)),
    'bad host': () => this.#withHost(this.#dice.pick(HOSTS)),
    'bad first line': () => this.#withFirstLine(),
    'bad length': () => this.#withLength(),
    chunks: () => this.#chunked(),
    'odd values': () => this.#withOddValues(),
    'several at once': () =>
      Buffer.concat(
        this.#dice.times(this.#dice.between(2, 5), () => bytesOf(this.#requests.next())),
      ),
    'cut off': () => bytesOf(this.#requests.next()),
  }

  #withBody(body: Buffer): Buffer {
    const { headers, ...rest } = this.#requests.next('with a body')
    const others = headers.filter(([name]) => name !== 'content-length')
    const length = ['content-length', String(body.length)] as const
    return bytesOf({ ...rest, headers: [...others, length], body })
  }

  #withLine(line: string): Buffer {
    const bytes = bytesOf(this.#requests.next())
    const at = bytes.indexOf('\r\n') + 2
    const more = latin1(`${line}\r\n`)
    return Buffer.concat([bytes.subarray(0, at), more, bytes.subarray(at)])
  }

  #withHost(host: string): Buffer {
    const { headers, ...rest } = this.#requests.next()
    const others = headers.filter(([name]) => name !== 'host')
    const hosts = this.#dice.oneIn(5) ? [] : [['host', host] as const]
    return bytesOf({ ...rest, headers: [...hosts, ...others] })
  }

  #withFirstLine(): Buffer {
    const dice = this.#dice
    const request = this.#requests.next()
    const method = dice.oneIn(2) ? dice.pick(METHODS) : request.method
    const target = dice.oneIn(2) ? dice.pick(TARGETS) : request.target
    return bytesOf({ ...request, method, target }, dice.oneIn(4) ? dice.pick(VERSIONS) : '1.1')
  }

  #withLength(): Buffer {
    const dice = this.#dice
    const request = this.#requests.next('with a body')
    const { length } = request.body
    const lie = String(Math.max(0, length + dice.between(-20, 20)))
    const value = dice.oneIn(2) ? lie : dice.pick(LENGTHS)
    const keep = dice.oneIn(2) ? request.headers : request.headers.slice(0, -1)
    return bytesOf({ ...request, headers: [...keep, ['content-length', value]] })
  }

  #chunked(): Buffer {
    const dice = this.#dice
    const request = this.#requests.next('with a body')
    const encoding = dice.oneIn(3) ? dice.pick(ENCODINGS) : 'chunked'
    const keep = dice.oneIn(4) ? request.headers : request.headers.slice(0, -1)
    const headers: WholeRequest['headers'] = [...keep, ['transfer-encoding', encoding]]
    const chunks = cutUp(request.body, dice).map((chunk) => this.#chunk(chunk))
    const end = dice.pick([
      '0\r\n\r\n',
      '0\r\nx: y\r\n\r\n',
      '0;x\r\n\r\n',
      '00\r\n\r\n',
      '0\n\n',
      '0\r\n\0: \r\n',
    ])
    return bytesOf({ ...request, headers, body: Buffer.concat([...chunks, Buffer.from(end)]) })
  }

  #chunk(bytes: Buffer): Buffer {
    const dice = this.#dice
    const size = bytes.length.toString(16)
    const line = dice.oneIn(4)
      ? dice.pick([
          `0${size}`,
          `-${size}`,
          `0x${size}`,
          'ffffffffffffffffff',
          `${size};a="\0"`,
          ` ${size}`,
          'g',
          '',
        ])
      : size
    const end = dice.oneIn(10) ? dice.pick(['\n', '', '\r', '\r\n\r\n']) : '\r\n'
    return Buffer.concat([Buffer.from(`${line}\r\n`), bytes, Buffer.from(end)])
  }

  /** What HTTP can carry in the place of an id, a parameter or a header, and nobody means. */
  #withOddValues(): Buffer {
    const dice = this.#dice
    const { target, headers, ...rest } = this.#requests.next()
    const odd = () => encodeOddly(dice.text(dice.between(1, 12)), dice)
    const [path = '', query = ''] = target.split('?')
    const strange = path.replaceAll(/known|other|unknown/g, odd)
    const asked = `${query.replaceAll(/=[^&]*/g, () => `=${odd()}`)}${dice.oneIn(2) ? `&${odd()}=${odd()}` : ''}`
    return bytesOf({ ...rest, headers, target: asked === '' ? strange : `${strange}?${asked}` })
  }
}

/** Some of it escaped, some of it escaped twice, some of it not at all. */
function encodeOddly(text: string, dice: Dice): string {
  const bytes = [...Buffer.from(text)]
  return bytes
    .map((byte) => {
      const escaped = `%${byte.toString(16).padStart(2, '0')}`
      const raw = byte > 0x20 && byte < 0x7f ? String.fromCodePoint(byte) : escaped
      return dice.pick([escaped, escaped, raw, escaped.replace('%', '%25')])
    })
    .join('')
}
