/**
 * @passover/sdk/people: what people do, and programs for them (the command line, the HTTP gateway): ask the audit, decide, cancel, settle
 * dead letters, change the policy. Everything takes a Bus that is connected as the person; an expected failure is a `Failure`.
 *
 * I1  A decision is stored under the person's own name, bound to the digest of what was decided, and never over another one that counts.
 * I2  What a person may not do, the server refuses: nothing here knows of rights of its own.
 */
export { type AgentLine, readAgents } from './agents.js'
export { ask, askAgents, askInbox, askList, askPasses, findPass, type ListFilter, type PassRef, severalPasses } from './ask.js'
export { askIndex, askQuery, askStats, pages } from './ask-audit.js'
export { openBelow, publishCancel, untilEnded } from './cancel.js'
export { askCustody, type CustodySays, sayCustody } from './custody.js'
export { type Decided, decide, type Standing } from './decide.js'
export { decideDue, refuseOwn, shownDigest } from './decide-due.js'
export type { DueDecided } from './decided-before.js'
export { type ShownReturn, verifyStored } from './decided-return.js'
export { Failure } from './failure.js'
export { type Happening, happeningOf } from './happening.js'
export { askLetters, everyLetter, findLetter, type LetterFilter } from './letters.js'
export { openQueued, totalLoad } from './load.js'
export { askNames, type Names } from './names.js'
export { requireCompiling, schemaFaults } from './output-schema.js'
export {
  gate,
  type InForce,
  inForce,
  lenient,
  type PolicySession,
  policyOn,
  publish,
  sameDocument,
  versionOf,
  wasFaster,
} from './policy.js'
export { type FaultInFile, faultText, invalidPolicy, jsonFault } from './policy-faults.js'
export { noWorkersText, readPresence, waitsForWorker, workersFor, workersOf } from './presence.js'
export { refuseEndedParent, requeueLetter } from './requeue.js'
export { type PassResult, readResult } from './result.js'
export { type Done, dropLetter, refOf } from './settle.js'
export { isOpen, standing } from './standing.js'
