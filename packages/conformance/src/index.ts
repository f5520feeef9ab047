export { type FakeClock, fakeClock } from './fake-clock.ts'
export { payloads } from './turn-log/payloads.ts'
export {
  describeTurnLog,
  type SuiteOptions,
  type SuiteRunner,
  type TurnLogUnderTest,
} from './turn-log-suite.ts'
