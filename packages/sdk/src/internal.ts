/** Exports that `@passover/operator` needs from the SDK. Not part of the public API: they change without notice. */
export { type Accepts, notShown, type Review, reviewable, reviewReturn } from './apply/plan/review.js'
export { outputBytes } from './messages/decode-return.js'
