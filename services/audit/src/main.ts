#!/usr/bin/env node
import { loadProcess } from '@passover/bus/entry'

const { main } = await loadProcess(() => import('./service/process.js'))
await main()
