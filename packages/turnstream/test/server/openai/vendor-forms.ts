/** What vendors are asked with, each in its own form. */
import type { VENDORS, VendorName } from './stage.ts'

export const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

export const IMAGES: Record<VendorName, unknown> = {
  'openai-responses': [
    { type: 'input_text', text: 'What is this?' },
    { type: 'input_image', image_url: `data:image/png;base64,${PNG}`, detail: 'auto' },
  ],
  'anthropic-messages': [
    { type: 'text', text: 'What is this?' },
    { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
  ],
  'openai-chat': [
    { type: 'text', text: 'What is this?' },
    { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } },
  ],
  gemini: [{ text: 'What is this?' }, { inlineData: { mimeType: 'image/png', data: PNG } }],
}

export const SETTINGS: Record<(typeof VENDORS)[number], (schema: object) => object> = {
  'openai-responses': (schema) => ({
    text: { format: { type: 'json_schema', name: 'n', schema } },
    tools: [{ type: 'function', name: 'f', parameters: schema, strict: true }],
    tool_choice: 'auto',
    parallel_tool_calls: false,
    max_output_tokens: 100,
    temperature: 0.5,
    top_p: 0.9,
  }),
  'anthropic-messages': (schema) => ({
    system: [{ type: 'text', text: 'Be short.' }],
    output_config: { format: { type: 'json_schema', schema } },
    tools: [{ name: 'f', input_schema: schema, strict: true }],
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
    max_tokens: 100,
    temperature: 0.5,
    top_p: 0.9,
  }),
  'openai-chat': (schema) => ({
    response_format: { type: 'json_schema', json_schema: { name: 'n', schema } },
    tools: [{ type: 'function', function: { name: 'f', parameters: schema, strict: true } }],
    tool_choice: 'auto',
    parallel_tool_calls: false,
    max_completion_tokens: 100,
    temperature: 0.5,
    top_p: 0.9,
  }),
}
