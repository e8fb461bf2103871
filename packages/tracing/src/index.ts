/**
 * @passover/tracing: the one place that knows OpenTelemetry. It fills the port `Tracing` of @passover/core; only mains (`connect()`, the
 * services' and the command's) open it.
 *
 * T1 Nothing global is registered: a process's own OpenTelemetry is used where there is one, and never replaced.
 * T2 OpenTelemetry's SDK is loaded only where the environment names where spans go (export.ts); without it a process costs nothing.
 * T3 What is told of a pass are its names, states and times; nothing of what is passed.
 * T4 That spans cannot be sent is told once, and keeps no pass from anything.
 */
export { type OpenTracing, openTracing } from './open.js'
