import { describeFixtures } from '../golden-suite.ts'

describeFixtures('anthropic-messages')
