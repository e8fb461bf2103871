import { setPriority } from 'node:os'
import { runAudit } from '@passover/audit'
import { runDispatcher } from '@passover/dispatcher'
import { report, retryUntilDone, roleOptions } from './role.js'

/** A dispatcher or an audit as an installation runs it, but for where its environment comes from. */
const { service, env } = roleOptions<{ service: 'dispatcher' | 'audit'; env: Record<string, string> }>()

/** As its own main has it. */
const NICENESS = 5
if (service === 'audit') setPriority(NICENESS)
await retryUntilDone<unknown>(() =>
  service === 'dispatcher' ? runDispatcher({ ...process.env, ...env }) : runAudit({ ...process.env, ...env }),
)
report('ready')
