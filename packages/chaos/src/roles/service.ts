import { setPriority } from 'node:os'
import { runAudit } from '@passover/audit'
import { runDispatcher } from '@passover/dispatcher'
import { report, retryUntilDone, roleOptions } from './role.js'

/** Runs a dispatcher or an audit as in an installation, except that its environment comes from the runner. */
const { service, env } = roleOptions<{ service: 'dispatcher' | 'audit'; env: Record<string, string> }>()

/** Niceness of the audit, as in its own entry point. */
const NICENESS = 5
if (service === 'audit') setPriority(NICENESS)
await retryUntilDone<unknown>(() =>
  service === 'dispatcher' ? runDispatcher({ ...process.env, ...env }) : runAudit({ ...process.env, ...env }),
)
report('ready')
