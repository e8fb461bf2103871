import type { Route } from '../route.js'
import { listAgents, listInbox } from './agents.js'
import { getApplyPlan } from './apply-plan.js'
import { listAudit } from './audit.js'
import { createPassRoute } from './create-pass.js'
import { approvePassRoute, cancelPassRoute, denyPassRoute } from './decisions.js'
import { dropDeadLetterRoute, getDeadLetter, listDeadLettersRoute, requeueDeadLetterRoute } from './dlq.js'
import { followEvents } from './events.js'
import { getPass, listPasses } from './passes.js'
import { explainPolicyRoute, getPolicy, putPolicy } from './policy.js'
import { listReturns } from './returns.js'
import { livez, metrics, openapi, readyz } from './system.js'

/** All routes, in the order of the OpenAPI document. */
export const ROUTES: readonly Route[] = [
  listAudit,
  listReturns,
  listPasses,
  createPassRoute,
  getPass,
  cancelPassRoute,
  approvePassRoute,
  denyPassRoute,
  getApplyPlan,
  listInbox,
  listAgents,
  getPolicy,
  putPolicy,
  explainPolicyRoute,
  listDeadLettersRoute,
  getDeadLetter,
  requeueDeadLetterRoute,
  dropDeadLetterRoute,
  followEvents,
  livez,
  readyz,
  metrics,
  openapi,
]
