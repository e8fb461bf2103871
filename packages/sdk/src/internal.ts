/** What `@passover/operator` shares with the SDK. No part of the public API: it changes without notice. */
export { type Accepts, notShown, type Review, reviewable, reviewReturn } from './apply/plan/review.js'
export { outputBytes } from './messages/decode-return.js'
