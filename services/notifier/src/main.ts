#!/usr/bin/env node
import { loadProcess } from '@passover/bus/entry'

const { main } = await loadProcess(() => import('./process.js'))
await main()
