import { z } from 'zod'
import { filePath, filled, jsonRecord, list, open, text } from '../base/bounded-types.js'
import { LIMITS } from '../base/limits.js'

/** WorkArtifact and its five kinds. */

export const FILE_ENCODINGS = ['utf8', 'base64'] as const
export const fileEncoding = z.enum(FILE_ENCODINGS)
export type FileEncoding = z.infer<typeof fileEncoding>

export const confidence = z.enum(['high', 'medium', 'low'])

/** A change to one file. `create` requires an empty old_content, `delete` an empty new_content. */
export const fileModificationArtifact = open({
  type: z.literal('file_modification'),
  path: filePath,
  old_content: text(LIMITS.content),
  new_content: text(LIMITS.content),
  reason: text(LIMITS.page),
  confidence,
  /** Encoding of both contents. Absent means utf8: the text itself. */
  encoding: fileEncoding.optional(),
  /** Absent means `modify`. */
  operation: z.enum(['create', 'modify', 'delete']).optional(),
})
export type FileModificationArtifact = z.infer<typeof fileModificationArtifact>

export const decisionArtifact = open({
  type: z.literal('decision'),
  id: filled(LIMITS.short),
  question: text(LIMITS.page),
  answer: z.enum(['yes', 'no', 'unknown']),
  reasoning: text(LIMITS.text),
  alternatives_considered: list(text(LIMITS.page), LIMITS.findings).optional(),
})
export type DecisionArtifact = z.infer<typeof decisionArtifact>

export const messageArtifact = open({
  type: z.literal('message'),
  role: z.enum(['assistant', 'internal']),
  content: text(LIMITS.text),
  visibility: z.enum(['originator_only', 'user_visible']),
})
export type MessageArtifact = z.infer<typeof messageArtifact>

export const SEVERITIES = ['error', 'warning', 'info'] as const
export const severity = z.enum(SEVERITIES)
export type Severity = z.infer<typeof severity>

export const findingLocation = open({ path: filePath, line: z.int().min(0).optional(), column: z.int().min(0).optional() })

export const findingArtifact = open({
  type: z.literal('finding'),
  severity,
  category: text(LIMITS.word),
  message: text(LIMITS.page),
  location: findingLocation.optional(),
  suggested_fix: text(LIMITS.text).optional(),
})
export type FindingArtifact = z.infer<typeof findingArtifact>

export const toolResultArtifact = open({
  type: z.literal('tool_result'),
  tool_name: filled(LIMITS.word),
  call_id: filled(LIMITS.short),
  input: jsonRecord,
  output: text(LIMITS.text),
  status: z.enum(['success', 'error']),
})
export type ToolResultArtifact = z.infer<typeof toolResultArtifact>

export const workArtifact = z.discriminatedUnion('type', [
  fileModificationArtifact,
  decisionArtifact,
  messageArtifact,
  findingArtifact,
  toolResultArtifact,
])
export type WorkArtifact = z.infer<typeof workArtifact>
