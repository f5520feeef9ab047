import { describeFixtures } from '../golden-suite.ts'

describeFixtures('response-notifications')
