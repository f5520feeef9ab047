import { describeFixtures } from '../golden-suite.ts'

describeFixtures('openai-chat', {
  everyForm: [
    'call-without-arguments',
    'content-filter',
    'error-in-a-call',
    'length',
    'reasoning-openrouter',
    'refusal',
  ],
  everyCut: 'text',
})
