import type { Route } from '../route.js'
import { listAgents, listInbox } from './agents.js'
import { showPlan } from './apply-plan.js'
import { listAudit } from './audit.js'
import { createAPass } from './create-pass.js'
import { approvePass, cancelAPass, denyPass } from './decisions.js'
import { dropALetter, listLetters, requeueALetter, showALetter } from './dlq.js'
import { followEvents } from './events.js'
import { listPasses, showPass } from './passes.js'
import { explainAPolicy, getPolicy, putPolicy } from './policy.js'
import { listReturns } from './returns.js'
import { livez, metrics, openapi, readyz } from './system.js'

/** Everything that can be asked, in the order of the document. */
export const ROUTES: readonly Route[] = [
  listAudit,
  listReturns,
  listPasses,
  createAPass,
  showPass,
  cancelAPass,
  approvePass,
  denyPass,
  showPlan,
  listInbox,
  listAgents,
  getPolicy,
  putPolicy,
  explainAPolicy,
  listLetters,
  showALetter,
  requeueALetter,
  dropALetter,
  followEvents,
  livez,
  readyz,
  metrics,
  openapi,
]
