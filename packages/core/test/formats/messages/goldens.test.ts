import { describeFixtures } from '../golden-suite.ts'

describeFixtures('anthropic-messages', {
  everyForm: [
    'attempt-reset',
    'error-in-tool-call',
    'refusal',
    'tool-calls-end-turn',
    'two-responses',
  ],
  everyCut: 'tool-call',
})
