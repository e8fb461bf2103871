import { register } from 'node:module'

/** Loaded first (`node --import`): puts the fault that SIMULATION_MUTANT names into what is loaded after it. */
register(new URL('./mutate-hooks.js', import.meta.url), { data: process.env.SIMULATION_MUTANT })
