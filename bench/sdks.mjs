// SDKs of this folder only. The type checker cannot resolve the dynamic names, so it does not need them installed.

// Its warnings are for people who choose a model.
Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })

/** @param {string} name @returns {Promise<any>} */
const load = (name) => import(name)

export const { createAnthropic } = await load('@ai-sdk/anthropic')
export const { createOpenAI } = await load('@ai-sdk/openai')
export const { default: Anthropic } = await load('@anthropic-ai/sdk')
export const { streamText } = await load('ai')
export const { createParser } = await load('eventsource-parser')
export const { default: OpenAI } = await load('openai')
