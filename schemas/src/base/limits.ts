/**
 * All limits on strings, lists and numbers from outside, in one place. Lengths of strings are in UTF-16 code units. The limits make hostile input
 * cheap to refuse, so they are far above normal use; tighter limits (context size, timeout, depth) are set by the policy.
 */
export const LIMITS = {
  /** Ids, session names, versions, mime types: keys that people and programs type. */
  short: 256,
  /** Names of tools, constraints, categories, skills: usually several in a list. */
  word: 128,
  /** A reason, a location, a URL: a few lines. */
  line: 4_096,
  /** An objective, a finding, an error message: up to about ten pages. */
  page: 65_536,
  /** A message's text or a tool's output: text written by a model or printed by a program. */
  text: 16 * 1024 * 1024,
  /** A file's content. Higher than the largest context that a policy allows by default, so that a context that is too large gets E012, not E005. */
  content: 64 * 1024 * 1024,
  /** A path. A part is named `file:<path>`. */
  path: 1_024,
  /** Largest context that a policy may allow. */
  context_bytes: 1024 ** 3,

  files: 10_000,
  messages: 10_000,
  parts: 1_000,
  tool_results: 10_000,
  todos: 1_000,
  errors: 1_000,
  artifacts: 10_000,
  findings: 10_000,
  recommendations: 1_000,
  constraints: 100,
  tools: 1_000,
  approvers: 1_000,
  skills: 100,
  /** Passes in one chain; `max_chain_depth` cannot exceed it. Keeps the audit of a chain readable. */
  chain: 32,
  /** Entries of an origination chain: a start and a return for each pass of the chain. */
  chain_entries: 64,
  pairs: 10_000,
  subagents: 10_000,
  decisions: 20_000,

  /** Keys of one record, or of an open object including unknown ones. */
  keys: 1_000,
  /** Limits for values of unknown shape (tool input, metadata): depth, number of nodes, total number of characters. */
  depth: 32,
  nodes: 100_000,
  /** Values in a whole message, of known and unknown shape: limits the cost of reading one. */
  values: 60_000,

  /** 24 h: the longest possible run (max_timeout_ms). */
  timeout_ms: 86_400_000,
  /** 7 days: the longest possible hold (approval_expires_ms). */
  approval_ms: 604_800_000,
  /** A shorter lease would expire between two heartbeats of a busy process. */
  min_lease_ms: 100,
  /** 10 min: the latest time at which a lost attempt is detected. */
  max_lease_ms: 600_000,
  attempts: 100,
  /** Handlers that one worker may run concurrently. */
  handlers: 10_000,
  /** The last millisecond of ECMAScript time. */
  time: 8_640_000_000_000_000,
} as const
