/**
 * Every limit on a string, list or number that others may send, in one place.
 * Lengths of strings are in UTF-16 units. They are there to make hostile input cheap to refuse, so they are far above
 * honest use; what a policy limits more tightly (context size, timeout, depth) is the policy's affair.
 */
export const LIMITS = {
  /** Ids, session names, versions, mime types: keys that people and programs type. */
  short: 256,
  /** Names of tools, constraints, categories, skills: more of them in a list. */
  word: 128,
  /** A reason, a location, a URL: a few lines. */
  line: 4_096,
  /** An objective, a finding, an error message: a page or ten. */
  page: 65_536,
  /** A message's text, a tool's output: what a model writes or a program prints. */
  text: 16 * 1024 * 1024,
  /** A file's content. Above the largest context that a policy allows by default, so that too much is E012, not E005. */
  content: 64 * 1024 * 1024,
  /** A path; a part is named `file:<path>`. */
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
  /** Passes in one chain; `max_chain_depth` may not exceed it. Audit of a chain stays readable. */
  chain: 32,
  /** Entries of an origination chain: each pass of the chain starts and returns. */
  chain_entries: 64,
  pairs: 10_000,
  subagents: 10_000,
  decisions: 20_000,

  /** Keys of one record, and of an open object with its unknown ones. */
  keys: 1_000,
  /** Values of unknown shape (tool input, metadata): how deep, how many nodes, how many characters in all. */
  depth: 32,
  nodes: 100_000,
  /** Values of a whole message, of known shape and unknown: what it may cost to look at one. */
  values: 60_000,

  /** 24 h: nothing runs longer (max_timeout_ms). */
  timeout_ms: 86_400_000,
  /** 7 days: bound of a hold (approval_expires_ms). */
  approval_ms: 604_800_000,
  /** A lease below this would expire between two heartbeats of a busy process. */
  min_lease_ms: 100,
  /** 10 min: an attempt that is lost is found lost no later. */
  max_lease_ms: 600_000,
  attempts: 100,
  /** Handlers that one worker runs at a time. */
  handlers: 10_000,
  /** The last millisecond of ECMAScript's time. */
  time: 8_640_000_000_000_000,
} as const
