import { describeFixtures } from '../golden-suite.ts'

describeFixtures('response-notifications', {
  everyForm: ['failed', 'incomplete', 'reasoning', 'text', 'two-responses'],
  everyCut: 'tool-calls-interleaved',
})
