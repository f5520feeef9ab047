import { describeFixtures } from '../golden-suite.ts'

describeFixtures('openai-responses', {
  everyForm: [
    'attempt-reset',
    'failed',
    'id-rotation',
    'incomplete-content-filter',
    'incomplete-length',
    'refusal',
  ],
  everyCut: 'tool-call',
})
