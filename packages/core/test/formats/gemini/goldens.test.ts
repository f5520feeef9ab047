import { describeFixtures } from '../golden-suite.ts'

describeFixtures('gemini', {
  everyForm: [
    'call-with-id',
    'max-tokens',
    'prompt-blocked',
    'thoughts',
    'truncated-partial-arguments',
  ],
  everyCut: 'text',
})
