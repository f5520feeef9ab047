import { describeFixtures } from '../golden-suite.ts'

describeFixtures('response-notifications', {
  everyForm: [
    'failed',
    'incomplete',
    'reasoning',
    'text',
    'text-then-tool-call',
    'tool-call',
    'two-responses',
    'unknown-types',
  ],
  everyCut: 'tool-calls-interleaved',
})
