import { jsonLine } from '../../protocol/json.ts'
import { ResponseReducer } from '../../reducer/reduce.ts'
import { encodeSse } from '../../sse/encode.ts'
import type { TargetFormat } from '../format.ts'

/** Writes the complete Response when it has ended. */
export const writeResponse: TargetFormat = (_start, { json, write }) => {
  const reducer = new ResponseReducer()
  return {
    event: (event) => void reducer.apply(event),
    end() {
      const { response } = reducer
      return write(json ? jsonLine(response) : encodeSse({ data: JSON.stringify(response) }))
    },
  }
}
