import { prepare } from '../setup/prepare.mjs'

/** `npm start`: the set-up, then the main job. Plain JavaScript, since nothing is built yet on a fresh clone. */
await prepare({ tests: false })
const { loadProcess } = await import('../../packages/bus/dist/service/entry.js')
const { main } = await loadProcess(() => import('../dist/start/main.js'))
process.exit(await main(process.argv.slice(2)))
