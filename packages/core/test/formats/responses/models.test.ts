/** What each OpenAI model takes. */

import { describe, expect, test } from 'vitest'
import { openaiChatSettings } from '../../../src/formats/chat-completions/settings.ts'
import { openaiResponsesSettings } from '../../../src/formats/responses/settings.ts'
import { fitSettings } from '../../../src/formats/settings.ts'
import type { ModelSettings } from '../../../src/index.ts'

describe.each([
  ['openai-responses', openaiResponsesSettings()],
  ['openai-chat', openaiChatSettings({})],
])('%s', (_name, table) => {
  /** Of the settings that are given. */
  function unsupported(request: ModelSettings): string[] {
    return fitSettings(table, request).unsupported.filter((name) => name in request)
  }

  test.each([
    ['gpt-4.1-mini', 'low', undefined],
    ['chatgpt-4o-latest', 'none', undefined],
    ['o4-mini', 'none', 'low'],
    ['gpt-5', 'none', 'minimal'],
    ['gpt-5-chat-latest', 'low', undefined],
    ['gpt-5.1-chat-latest', 'high', 'medium'],
    ['gpt-5-pro', 'low', 'high'],
    ['gpt-5.2-pro', 'low', 'medium'],
    ['gpt-5-codex', 'none', 'low'],
    ['gpt-5.1-codex-mini', 'xhigh', 'high'],
    ['gpt-5.1-codex-max', 'max', 'xhigh'],
    ['gpt-5.3-codex', 'minimal', 'low'],
    ['gpt-5.1', 'xhigh', 'high'],
    ['gpt-5.4-mini', 'max', 'xhigh'],
    ['gpt-5.5-2026-04-23', 'max', 'xhigh'],
    ['gpt-6-astra', 'none', 'low'],
    ['gpt-6.1-sol', 'minimal', 'low'],
  ] as const)('%s has no effort %s, and gets %s', (model, reasoningEffort, expected) => {
    const request = { model, reasoningEffort }
    expect(unsupported(request)).toEqual(['reasoningEffort'])
    expect(fitSettings(table, request).nearest.reasoningEffort).toBe(expected)
  })

  test.each([
    ['gpt-5.1-codex-max', 'xhigh'],
    ['gpt-5.2', 'none'],
    ['openai/gpt-5.6-terra', 'max'],
    ['gpt-6.1-terra', 'none'],
    ['gpt-6.1-sol', 'max'],
    ['gpt-7', 'minimal'],
  ] as const)('%s has the effort %s', (model, reasoningEffort) => {
    expect(unsupported({ model, reasoningEffort })).toEqual([])
  })

  const SAMPLED = ['temperature', 'topP']

  test.each([
    ['gpt-4o', [], ['reasoningEffort'], ['reasoningEffort']],
    ['o3', SAMPLED, SAMPLED, ['reasoningEffort', ...SAMPLED]],
    ['gpt-5-mini', SAMPLED, SAMPLED, ['reasoningEffort', ...SAMPLED]],
    ['gpt-5-chat-latest', [], ['reasoningEffort'], ['reasoningEffort']],
    ['gpt-5.1-codex', SAMPLED, SAMPLED, ['reasoningEffort', ...SAMPLED]],
    // Does not reason by default.
    ['gpt-5.4', [], SAMPLED, []],
    ['gpt-5.5', SAMPLED, SAMPLED, []],
    ['gpt-5.6-terra', SAMPLED, SAMPLED, []],
    ['gpt-6.1-terra', SAMPLED, SAMPLED, []],
    ['gpt-6-astra', SAMPLED, SAMPLED, ['reasoningEffort', ...SAMPLED]],
  ] as const)('%s lacks %j, with low %j, with none %j', (model, alone, low, none) => {
    const request = { model, temperature: 0.5, topP: 0.9 }
    const lacking = (given: object) => unsupported({ ...request, ...given })
    expect(lacking({})).toEqual(alone)
    expect(lacking({ reasoningEffort: 'low' })).toEqual(low)
    expect(lacking({ reasoningEffort: 'none' })).toEqual(none)
  })

  test('the defaults of sampling are no settings', () => {
    const request = { model: 'gpt-6-astra', temperature: 1, topP: 1 }
    expect(unsupported(request)).toEqual([])
  })
})
