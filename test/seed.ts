/** Property tests try the same cases in every run. `TURNSTREAM_FUZZ_SEED=7` tries others. */
import fc from 'fast-check'

const seed = Number(process.env['TURNSTREAM_FUZZ_SEED'] ?? 20_260_101)

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed })
