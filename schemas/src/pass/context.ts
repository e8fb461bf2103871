import { z } from 'zod'
import { capKeys, count, filePath, filled, jsonRecord, list, open, text, time } from '../base/bounded-types.js'
import { agentName, passId } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { fileEncoding } from './artifacts.js'
import { frequent } from './message.js'
import { workOutput } from './output.js'

/**
 * Statuses of a tool call. Tool results use `in_progress` where message parts use `running`. Both words are accepted in both places and converted to
 * the word of the place.
 */
const TOOL_STATUSES = ['pending', 'in_progress', 'running', 'completed', 'error'] as const
export const toolResultStatus = z.enum(TOOL_STATUSES).transform((status) => (status === 'running' ? ('in_progress' as const) : status))
export type ToolResultStatus = z.infer<typeof toolResultStatus>
export const toolPartStatus = z.enum(TOOL_STATUSES).transform((status) => (status === 'in_progress' ? ('running' as const) : status))
export type ToolPartStatus = z.infer<typeof toolPartStatus>

/** A part of a message. */
export const messagePart = open({
  id: filled(LIMITS.short),
  type: z.enum(['text', 'tool', 'file', 'reasoning']),

  text: text(LIMITS.text).optional(),
  /** True if generated, not written by the user. */
  synthetic: z.boolean().optional(),
  /** True if meant only for the agent. */
  ignored: z.boolean().optional(),

  tool_name: filled(LIMITS.word).optional(),
  call_id: filled(LIMITS.short).optional(),
  tool_status: toolPartStatus.optional(),
  tool_input: jsonRecord.optional(),
  tool_output: text(LIMITS.text).optional(),
  tool_error: text(LIMITS.page).optional(),

  /** May be a data URL. */
  file_url: text(LIMITS.content).optional(),
  file_path: filePath.optional(),
  file_mime: text(LIMITS.short).optional(),

  timestamp: time.optional(),
  metadata: jsonRecord.optional(),
})
export type MessagePart = z.infer<typeof messagePart>

/** PassOverMarker: entry in the session's history for the request of a pass. */
export const passOverMarker = open({
  type: z.literal('pass_over').default('pass_over'),
  id: filled(LIMITS.short).optional(),
  originating_agent: agentName,
  subagent: agentName,
  reason: filled(LIMITS.line),
  pass_over_id: passId.optional(),
  timestamp: time.optional(),
})
export type PassOverMarker = z.infer<typeof passOverMarker>

/** PassOverReturnMarker: entry in the session's history for the return of a pass. */
export const passOverReturnMarker = open({
  type: z.literal('pass_over_return').default('pass_over_return'),
  id: filled(LIMITS.short).optional(),
  work_output: workOutput,
  return_to: agentName,
  pass_over_id: passId.optional(),
  timestamp: time.optional(),
})
export type PassOverReturnMarker = z.infer<typeof passOverReturnMarker>

/** Elements of a message: the parts above and the two markers. */
export const sessionPart = z.discriminatedUnion('type', [messagePart, passOverMarker, passOverReturnMarker])
export type SessionPart = z.infer<typeof sessionPart>

/** A message of the session. `agent_id` is accepted as an alias of `agent_name` and stored as `agent_name`. */
export const sessionMessage = capKeys(
  open({
    id: filled(LIMITS.short),
    role: z.enum(['user', 'assistant']),
    agent_name: filled(LIMITS.word).optional(),
    agent_id: filled(LIMITS.word).optional(),
    parts: list(sessionPart, LIMITS.parts),
    timestamp: time,
  })
    .refine(oneAgent, { message: 'agent_name and agent_id are the same field but have different values', path: ['agent_id'] })
    .overwrite(nameAgent),
  LIMITS.keys,
)
export type SessionMessage = z.infer<typeof sessionMessage>

interface Named {
  agent_name?: string | undefined
  agent_id?: string | undefined
}

function oneAgent({ agent_name, agent_id }: Named): boolean {
  return agent_name === undefined || agent_id === undefined || agent_name === agent_id
}

function nameAgent<T extends Named>(message: T): T {
  if (message.agent_id === undefined) return message
  const { agent_id, ...rest } = message
  return { ...rest, agent_name: agent_id } as T
}

/** Returns the agent that sent a message, by either name, or `undefined` if the message names none. */
export function messageAgent(message: { agent_name?: string | undefined; agent_id?: string | undefined }): string | undefined {
  return message.agent_name ?? message.agent_id
}

/** A file of the context. */
export const contextFile = open({
  path: filePath,
  /** null or absent if the file was not read. */
  content: text(LIMITS.content).nullish(),
  /** Encoding of the content. Absent means utf8: the text itself. */
  encoding: fileEncoding.optional(),
  metadata: open({ size_bytes: count, last_modified: time, is_binary: z.boolean() }).optional(),
})
export type ContextFile = z.infer<typeof contextFile>

/** A tool result of the current attempt. */
export const toolResult = open({
  tool_name: filled(LIMITS.word),
  call_id: filled(LIMITS.short),
  status: toolResultStatus,
  input: jsonRecord,
  output: text(LIMITS.text).optional(),
  error: text(LIMITS.page).optional(),
  timestamp: time,
})
export type ToolResult = z.infer<typeof toolResult>

/** An entry of the session's todo list. Words for status and priority are the session's own, because coding tools name them differently. */
export const todo = open({
  id: filled(LIMITS.short).optional(),
  content: text(LIMITS.page),
  status: filled(LIMITS.word).optional(),
  priority: filled(LIMITS.word).optional(),
})
export type Todo = z.infer<typeof todo>

export const contextError = open({ type: text(LIMITS.word), message: text(LIMITS.page), context: text(LIMITS.page).optional() })
export type ContextError = z.infer<typeof contextError>

/** Model and provider that the session runs on. */
export const modelChoice = open({ provider_id: filled(LIMITS.word).optional(), model_id: filled(LIMITS.word) })

/** Context that a request provides for its subagent. */
export const workContext = frequent(
  open({
    session_id: filled(LIMITS.short),
    directory: filled(LIMITS.line),

    files: list(contextFile, LIMITS.files, { holds: uniquePaths, message: 'two files have the same path' }),
    messages: list(sessionMessage, LIMITS.messages),
    tool_results: list(toolResult, LIMITS.tool_results).optional(),

    todos: list(todo, LIMITS.todos).optional(),
    errors: list(contextError, LIMITS.errors).optional(),

    objective: filled(LIMITS.page),
    background: text(LIMITS.page).optional(),

    /** Model name, or provider and name. */
    model: z.union([filled(LIMITS.short), modelChoice]).optional(),
    /** The originator's permissions, in the session's own words. The subagent never gets more. */
    permissions: jsonRecord.optional(),
    user_id: filled(LIMITS.short).optional(),
    /** Tools that the originator may use. Absent if it does not say. */
    tools: list(filled(LIMITS.word), LIMITS.tools).optional(),
  }),
)
export type WorkContext = z.infer<typeof workContext>

function uniquePaths(files: { path: string }[]): boolean {
  return files.length < 2 || new Set(files.map((file) => file.path)).size === files.length
}
