import { describeFixtures } from '../golden-suite.ts'

describeFixtures('codex', {
  everyForm: [
    'client-tool-bad-arguments',
    'gateway-incomplete',
    'gateway-reasoning',
    'interrupted-in-text',
    'lost-end',
  ],
  everyCut: 'message-without-deltas',
})
