import { describeFixtures } from '../golden-suite.ts'

describeFixtures('gemini')
