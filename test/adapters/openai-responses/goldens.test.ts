import { describeFixtures } from '../golden-suite.ts'

describeFixtures('openai-responses')
