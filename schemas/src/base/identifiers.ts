import { customRandom, urlAlphabet } from 'nanoid'
import { z } from 'zod'

/** The name that the system itself signs with. Agents and persons cannot have it. */
export const SYSTEM = 'passover'

/** Originator and subagent of a request whose subject names none. No agent can have the name: it would receive the answers to such requests. */
export const NOBODY = 'nobody'

/** The priorities of a pass, most urgent first. A subagent has one queue of work for each. */
export const PRIORITIES = ['high', 'medium', 'low'] as const
export type Priority = (typeof PRIORITIES)[number]

/** The three tokens that identify a pass; the subjects of its journal contain exactly these. */
export interface PassKey {
  originator: string
  subagent: string
  id: string
}

/** A source of randomness, passed in so that a simulation can be repeated. */
export interface Random {
  bytes(length: number): Uint8Array
}

/** One NATS token: safe in subjects, consumer and bucket names. */
export const agentName = z
  .string()
  .regex(/^(?!passover$)[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/, {
    error: ({ input }) =>
      input === SYSTEM ? `"${SYSTEM}" is reserved` : 'a name has 1 to 64 characters of A-Z a-z 0-9 _ - and starts with a letter or digit',
  })

/** The name of an agent that is being registered or given credentials. Wider `agentName` still reads what is stored under `nobody`. */
export const newAgentName = agentName.refine((name) => name !== NOBODY, `"${NOBODY}" is reserved`)

const PASS_ID = /^(?!bad-)[A-Za-z0-9_-]{9,64}$/

/** A pass id: 9 to 64 token-safe characters. The prefix `bad-` is reserved for refusals of malformed requests. */
export const passId = z
  .string()
  .regex(PASS_ID, {
    error: ({ input }) =>
      typeof input === 'string' && input.startsWith('bad-')
        ? 'ids that start with "bad-" are reserved'
        : 'an id has 9 to 64 characters of A-Z a-z 0-9 _ -',
  })

/** Returns true if `passId` accepts the text. Every reader calls this for every request, and zod would allocate four objects each time. */
export function isPassId(text: string): boolean {
  return PASS_ID.test(text)
}

/** An id as it may occur in the stream: also `bad-<sequence>`, under which malformed requests are refused. */
export const storedId = z.string().regex(/^[A-Za-z0-9_-]{9,64}$/, 'an id has 9 to 64 characters of A-Z a-z 0-9 _ -')

/** A name as it may occur in the stream. An agent can address a request to a reserved name, and the refusal is recorded under it. */
export const storedName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/, 'a name has 1 to 64 characters of A-Z a-z 0-9 _ - and starts with a letter or digit')

/** Key of a pass as it may occur in the stream. */
export const storedKey = z.object({ originator: storedName, subagent: storedName, id: storedId })

/** Key of a pass that can be requested. */
export const passKey = z.object({ originator: agentName, subagent: agentName, id: passId })

const PARTITION = '0'
const INSTANCE_LENGTH = 7
const TIME_LENGTH = 9
const TAIL_LENGTH = 14
const TIME_END = PARTITION.length + INSTANCE_LENGTH + TIME_LENGTH
const GENERATED_LENGTH = TIME_END + 1 + TAIL_LENGTH
const GENERATED = /^[0-9a-z]{17}_[A-Za-z0-9_-]{14}$/
const DIGIT_ZERO = 0x30
const UNDERSCORE = 0x5f
const FIRST_LETTER = 0x61
const UUID7 = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i

/** Creates the seven characters that distinguish one SDK process from another. */
export function makeInstance(random: Random): string {
  return customRandom('0123456789abcdefghijklmnopqrstuvwxyz', INSTANCE_LENGTH, (n) => random.bytes(n))()
}

/** Creates a pass id: partition, instance, milliseconds in base 36, `_`, nanoid (docs/architecture/protocol.md#ids). */
export function makeId(instance: string, now: number, random: Random): string {
  const time = Math.floor(now).toString(36).padStart(TIME_LENGTH, '0')
  return `${PARTITION}${instance}${time}_${customRandom(urlAlphabet, TAIL_LENGTH, (n) => random.bytes(n))()}`
}

/** Returns the first eight characters of all ids of one instance, which is the prefix that its returns are received under. */
export function idPrefix(instance: string): string {
  return PARTITION + instance
}

/** Returns the time (ms) that an id contains. `undefined` for an id that is neither generated here nor a UUIDv7. */
export function idTime(id: string): number | undefined {
  if (id.length === GENERATED_LENGTH && id.charCodeAt(TIME_END) === UNDERSCORE) return GENERATED.test(id) ? ownTime(id) : undefined
  const uuid = UUID7.exec(id)
  return uuid?.[1] && uuid[2] ? Number.parseInt(uuid[1] + uuid[2], 16) : undefined
}

/** Parses digit by digit for speed: every reader of a pass calls this several times. */
function ownTime(id: string): number {
  let time = 0
  for (let at = TIME_END - TIME_LENGTH; at < TIME_END; at++) {
    const code = id.charCodeAt(at)
    time = time * 36 + code - (code < FIRST_LETTER ? DIGIT_ZERO : FIRST_LETTER - 10)
  }
  return time
}

/** Returns `originator/subagent/id`, the map key and printed form of a pass key. */
export function keyText(key: PassKey): string {
  return `${key.originator}/${key.subagent}/${key.id}`
}

/** Returns true if two keys name the same pass. Compares the ids first, because they usually differ. */
export function isSamePass(one: PassKey, other: PassKey): boolean {
  return one.id === other.id && one.subagent === other.subagent && one.originator === other.originator
}

/** Returns the guard's subject of every valid step of a pass, without prefix. */
export function journalFilter(key: PassKey): string {
  return `*.${key.originator}.${key.subagent}.${key.id}.*`
}

/** Parses the result of `keyText`. Returns `undefined` for any other text. */
export function parseKey(text: string): PassKey | undefined {
  const [originator, subagent, id, more] = text.split('/')
  if (!originator || !subagent || !id || more !== undefined) return undefined
  return { originator, subagent, id }
}
