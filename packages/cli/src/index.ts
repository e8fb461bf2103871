/**
 * The `passover` command line. This entry exports the parts that other programs (infra/start) show as well.
 *
 * Invariants, cited where they are upheld:
 * I1  stdout carries only the result; with --json it is exactly one JSON document, errors included.
 * I2  The exit code states the outcome (docs/reference/errors.md); a failed run never exits 0.
 * I3  All output goes through terminal/writer.ts, which makes control and hidden characters visible (docs/architecture/hostile-text.md).
 * I4  A decision is stored under the person's own name, bound to the digest of what was decided; it never replaces one that counts.
 * I5  No command that `work` started outlives its pass.
 */

export { askList, type DecisionResult, decide, findPass } from '@passover/operator'
export { renderReview } from './apply/render.js'
export { ExportFiles, writeCsv } from './audit/export-files.js'
export { connectAgent } from './connection/connect-agent.js'
export { connectAs } from './connection/connect-person.js'
export { resolvePeople, resolvePerson, resolveServer, type ServerSetting } from './connection/settings.js'
export { CliFailure, describeFailure, EXIT_CODES, ExitError } from './errors.js'
export { openEvidence, sealEvidence } from './evidence/sign.js'
export { confirmAction } from './input/confirm.js'
export type { LocalInstallation } from './local/services.js'
export { type LocalOptions, type StartResult, startLocal } from './local/start.js'
export { showProgress } from './passes/request-progress.js'
export { runChild } from './process/child-process.js'
export { buildProgram } from './program.js'
export { FAILURE, JSON_SHAPES, NAMED_SHAPES } from './render/json-schemas.js'
export { renderOutput } from './render/result.js'
export { renderTimeline } from './render/timeline.js'
export { replayInto } from './replay/into-prefix.js'
export { whatIfLive } from './replay/what-if.js'
export { launchCommand } from './sandbox/launch.js'
export { clockTime, duration } from './terminal/duration.js'
export { type StopSignals, stopSignals } from './terminal/stop-signals.js'
export { openTerminal, type Terminal } from './terminal/terminal.js'
export { count, formatCommands, oneLine, visible } from './terminal/text.js'
export { write } from './terminal/writer.js'
export { collectEvidence } from './verify/collect-pass.js'
export { type Verdict, type VerifyOptions, verifyArchive } from './verify/verify-archive.js'
export { verifyAndSave, verifyLive } from './verify/verify-live.js'
