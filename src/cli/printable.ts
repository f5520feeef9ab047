/**
 * What a terminal acts on instead of showing it: C0 and C1 controls except tab and newline, DEL, and the
 * controls that change the direction of text.
 */
const CONTROLS = String.raw`[^\P{Cc}\n\t]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]`
const CONTROL = new RegExp(CONTROLS, 'gu')

/** The colours and weights of `Terminal.style`, one attribute each. */
const STYLE_OR_CONTROL = new RegExp(String.raw`\u001b\[\d{1,2}m|${CONTROLS}`, 'gu')

/** Drops control characters from text of models, servers and files. */
export function printable(text: string): string {
  return text.replaceAll(CONTROL, '')
}

/**
 * Escapes the control characters that are left in output, except our own styles. Inside JSON the escape is
 * the same value. Applied by the terminal to everything it writes, so that no command can forget it.
 */
export function escapeControls(text: string): string {
  return text.replaceAll(STYLE_OR_CONTROL, (found) => (found.length > 1 ? found : escape(found)))
}

function escape(control: string): string {
  return `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`
}
