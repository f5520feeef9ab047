import bash from 'highlight.js/lib/languages/bash'
import css from 'highlight.js/lib/languages/css'
import go from 'highlight.js/lib/languages/go'
import json from 'highlight.js/lib/languages/json'
import python from 'highlight.js/lib/languages/python'
import sql from 'highlight.js/lib/languages/sql'
import typescript from 'highlight.js/lib/languages/typescript'
import xml from 'highlight.js/lib/languages/xml'
import { createLowlight } from 'lowlight'

const lowlight = createLowlight({ bash, css, go, json, python, sql, typescript, xml })
lowlight.registerAlias({
  typescript: ['javascript', 'js', 'jsx', 'mjs', 'tsx'],
  bash: ['console', 'shell'],
})

/** The tree of highlighted code, or undefined for a language that is not known. */
export function highlight(code: string, language: string) {
  return lowlight.registered(language) ? lowlight.highlight(language, code).children : undefined
}
