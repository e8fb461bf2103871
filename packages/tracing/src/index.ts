/**
 * @passover/tracing: the only package that uses OpenTelemetry. It implements the `Tracing` interface of @passover/core; only entry points
 * (`connect()`, the services and the command) open it.
 *
 * T1  Nothing global is registered: OpenTelemetry that the process has set up itself is used, and never replaced.
 * T2  OpenTelemetry's SDK is loaded only if the environment names a destination for spans (export.ts); otherwise tracing costs nothing.
 * T3  Spans contain the names, states and times of passes, never their content.
 * T4  A failure to send spans is reported once, and does not affect passes.
 */
export { type OpenTracing, openTracing } from './open.js'
