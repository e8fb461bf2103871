import { execFile } from 'node:child_process'
import { PERSON_NAME } from '../cluster/access.js'

/** Result of `passover verify` after a run. */
export interface VerifyCommandResult {
  ok: boolean
  /** Number of entries checked, by kind. */
  counts: Record<string, number>
  segments: number
  faults: string[]
  /** Number of messages that clients stored and readers ignore. */
  remarks: number
}

interface Answer {
  ok?: boolean
  counts?: Record<string, number>
  segments?: number
  shown?: { sequence?: number; pass?: string; rule: string; what: string }[]
  remarks?: number
  error?: { message?: string }
}

/** Time limit of the command: this minimum plus a third of the length of the run, since a longer run leaves more data to read. */
const MIN_TIMEOUT_MS = 300_000
const RUN_LENGTH_DIVISOR = 3
const MAX_OUTPUT_BYTES = 64 << 20

/** Runs `command` (which is `passover`) on the installation as a user would. Only this process can reach the servers, so it runs from here. */
export async function runVerifyCommand(
  command: readonly string[],
  where: { servers: readonly string[]; dir: string; id_window_ms: number; length_ms: number; credentials: string | undefined },
): Promise<VerifyCommandResult> {
  const [program = '', ...args] = command
  const how = [
    'verify',
    '--json',
    '--server',
    where.servers[0] ?? '',
    '--id-window',
    `${where.id_window_ms}ms`,
    ...(where.credentials ? ['--as', PERSON_NAME] : []),
  ]
  const { text, why } = await new Promise<{ text: string; why: string }>((resolve) => {
    const env = { ...process.env, ...(where.credentials && { NATS_CREDS: where.credentials }) }
    const options = { env, cwd: where.dir, timeout: MIN_TIMEOUT_MS + where.length_ms / RUN_LENGTH_DIVISOR, maxBuffer: MAX_OUTPUT_BYTES }
    execFile(program, [...args, ...how], options, (error, stdout, stderr) =>
      resolve({ text: stdout, why: stderr || (error?.message ?? '') }),
    )
  })
  const { ok = false, counts = {}, segments = 0, shown = [], remarks = 0, error } = answerIn(text)
  const faults = shown.map(({ sequence, pass, rule, what }) => `${[sequence, pass].filter(Boolean).join(' ')} ${what} [${rule}]`)
  if (!ok && faults.length === 0) faults.push(`it did not say: ${error?.message ?? why.slice(-500)}`)
  return { ok, counts, segments, faults, remarks }
}

function answerIn(text: string): Answer {
  try {
    return JSON.parse(text) as Answer
  } catch {
    return {}
  }
}
