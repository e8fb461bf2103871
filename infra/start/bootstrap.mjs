import { prepare } from '../setup/prepare.mjs'

/** `npm start`: the set-up, then the main job. Plain JavaScript, since nothing is built yet on a fresh clone. */
prepare({ tests: false })
const { main } = await import('../dist/start/main.js')
process.exit(await main(process.argv.slice(2)))
