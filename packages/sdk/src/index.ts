/**
 * @passover/sdk: the library for agents. `connect()` returns an `Agent`. `agent.passOver()` hands work to a subagent and resolves to its
 * output; `agent.onPass()` works as a subagent.
 *
 * Invariants, with the files that uphold them:
 * I1 A handler runs at most once per attempt. An attempt that cannot be proved to be the first begins with a fence (attempt/decide-attempt.ts,
 * attempt/begin-attempt.ts).
 * I2 A return is published only after the last step of its own attempt. If it is refused or the outcome is unknown, the journal is read
 * (attempt/publish-return.ts).
 * I3 A delivery is acknowledged only when its journal has ended (handler/run-handler.ts, worker/worker-loop.ts).
 * I4 A return that arrives on a subscription counts only under decision 3, and one that is read from the stream only under rule 6. In all other cases
 * the audit service decides (delivery/pending-return.ts, journal/journal-view.ts, returns/return-waiter.ts).
 * I5 A request that fails validation in the caller's process stores nothing (request/options.ts).
 * I6 Leases, deadlines and journal reads use one periodic sweep each, never a timer per pass (worker/worker-loop.ts, returns/journal-poller.ts).
 * I7 Files change only as a person's decision or the policy allows: all changes of a set or none, and only in files that are as the subagent saw them
 * (apply/).
 * I8 Bus, clock and randomness are passed in; only agent/connect.ts creates them.
 */
export type { Credentials } from '@passover/bus'
export { PassOverError, type RetryOptions, verifyWebhook } from '@passover/core'
export type {
  ContextFile,
  DecisionArtifact,
  ErrorCode,
  FileModificationArtifact,
  FindingArtifact,
  HandlerResult,
  MessageArtifact,
  Notice,
  SessionMessage,
  ToolResultArtifact,
  WorkArtifact,
  WorkContext,
  WorkOutput,
} from '@passover/schemas'
export type { Agent } from './agent/agent.js'
export { connect } from './agent/connect.js'
export type { ConnectOptions } from './agent/connect-options.js'
export { apply, disconnect, onPass, passOver, passOverWithRetry, returnFromPassOver } from './agent/default-agent.js'
export { drainOnSignals } from './agent/shutdown-signals.js'
export type { ApplyOptions } from './apply/apply.js'
export type { Applied } from './apply/apply-selected.js'
export type { WorkerEvent } from './attempt/worker-events.js'
export type { ReturnedPass } from './delivery/return-events.js'
export { type Handler, type Pass, WorkError } from './handler/pass.js'
export { returnMarker } from './request/history-markers.js'
export type { PassOverOptions } from './request/options.js'
export type { PassHandle } from './request/pass-handle.js'
export type { AgentDescription, Worker, WorkerOptions } from './worker/start-worker.js'
