/**
 * The notifier: notifies people. It posts a webhook for each return that the policy wants notified, and for each pass that waits for a person.
 *
 * Invariants, cited where they are upheld:
 * I1  At least once: a step is acknowledged when the receiver took its notices, or when they were given up and kept as a dead letter. The server
 *     remembers the position, so a killed notifier continues where it stopped. A notice keeps its id, so receivers can detect repetitions.
 * I2  Notices follow from the stream by the rules of core; a step that does not count causes no notice.
 * I3  A receiver gets no more than it needs: summaries, counts and names, never the contents of a file. Redirects are not followed.
 * I4  A slow or failing receiver delays only its own notices: the wait between attempts doubles up to a limit, and attempts go on for a day.
 * I5  One agent's notices do not delay another's: queue space, reads and posts are shared fairly between the agents at the roots of passes.
 */
export { webhookFrom } from './environment.js'
export { NotificationReader } from './notification-reader.js'
export { type Notifier, type NotifierDeps, startNotifier } from './notifier.js'
export { type NotifierSettings, notifierOptions } from './options.js'
export { mayBeTold } from './parse-notifications.js'
export { runNotifier } from './process.js'
