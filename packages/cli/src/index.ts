/**
 * The `passover` command: what people type. This entry is for the programs that show the same things (infra/start).
 *
 * Invariants, cited where they are upheld:
 * I1  stdout is the result and nothing else; with --json it is exactly one JSON document, errors included.
 * I2  The exit code says what became of it (docs/reference/errors.md); a failed run never exits 0.
 * I3  Everything is written by output/writer.ts, which makes control and hidden characters visible (docs/architecture/hostile-text.md).
 * I4  A decision is stored under the person's own name, bound to the digest of what was decided, and never over another one that counts.
 * I5  No command that `work` started outlives its pass.
 */

export { askList, type Decided, decide, findPass } from '@passover/sdk/people'
export { connectAgent } from './agent.js'
export { agreed } from './agreed.js'
export { ExportFiles, writeCsv } from './audit/export-files.js'
export { connectAs } from './client.js'
export { clock, duration } from './duration.js'
export { collectEvidence } from './evidence/collect.js'
export { openEvidence, sealEvidence } from './evidence/sign.js'
export { CliFailure, describeFailure, EXIT_CODES, Finished } from './failure.js'
export { FAILURE, JSON_SHAPES, NAMED_SHAPES } from './json/shapes.js'
export { type LocalOptions, type Started, startLocal } from './local.js'
export type { Local } from './local-parts.js'
export { write } from './output/writer.js'
export { buildProgram } from './program.js'
export { renderReview } from './render/apply.js'
export { renderOutput } from './render/result.js'
export { renderTimeline } from './render/timeline.js'
export { replayInto } from './replay/into.js'
export { whatIfLive } from './replay/what-if.js'
export { follow } from './request-progress.js'
export { launchOf } from './sandbox/launch.js'
export { resolvePeople, resolvePerson, resolveServer, type ServerSetting } from './settings.js'
export { type StopSignals, stopSignals } from './signals.js'
export { openTerminal, type Terminal } from './terminal.js'
export { count, oneLine, typed, visible } from './text.js'
export { verifyLive, verifySaving } from './verify/live.js'
export { type JudgeOptions, type Verdict, verifyArchive } from './verify/run.js'
export { runChild } from './work/child.js'
