/**
 * The notifier: tells people. It posts a webhook for each return that policy wants told, and for each pass that waits for a person.
 *
 * Invariants, cited where they are upheld:
 * I1  At least once: a step is acknowledged when its notices were taken by the receiver, or given up and kept as a dead letter. The
 *     server remembers how far it is, so that a killed notifier goes on where it was. A notice keeps its id, so that receivers can tell.
 * I2  What is told is what the fold of the stream says, by core's rules; a step that counts for nothing is not told.
 * I3  A receiver gets no more than it must: summaries, counts and names, never what is in a file; redirects are not followed.
 * I4  A slow or failing receiver costs only its own notices: they wait longer each time, up to a day.
 * I5  One agent's notices do not hold up another's: room, reads and posts are shared by the agents at the roots of passes.
 */
export { webhookFrom } from './environment.js'
export { NotificationReader } from './notification-reader.js'
export { type Notifier, type NotifierDeps, startNotifier } from './notifier.js'
export { type NotifierSettings, notifierOptions } from './options.js'
export { mayBeTold } from './parse-notifications.js'
export { runNotifier } from './process.js'
