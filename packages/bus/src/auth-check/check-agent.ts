import type { Credentials, TlsFiles } from '../connection/credentials.js'
import { outcomeOf } from '../messaging/publisher.js'
import { API } from '../permissions/grants.js'
import { inboxPrefixOf, Subjects } from '../subjects/subjects.js'
import { type Answer, CheckConnection, type CheckIdentity } from './check-connection.js'
import { type Attempt, admission, type BounceProbe, bounceProbes, directProbes, markerSubject, NOBODY } from './probes.js'

/** `possible`: the agent can do it. `untested`: it could not be tried or not be observed. */
export type ProbeState = 'refused' | 'possible' | 'untested'

/** Result of one probe. */
export interface ProbeResult {
  /** Group (`direct`, `bounce`, `listen`, `schedule`, `rollup`) and description of the attempt. */
  probe: string
  state: ProbeState
  text: string
}

export interface AgentCheck {
  agent: string
  /** `open`: the server does not restrict the agent at all, so nothing else was tried. */
  level: 'open' | 'permissions' | 'isolated' | 'unknown'
  probes: ProbeResult[]
  /** Subjects of the messages that the check left behind. */
  stored: string[]
}

export interface AgentCheckOptions {
  servers: string | string[]
  agent: string
  credentials?: Credentials | undefined
  /**
   * A second connection, not of an agent, which observes what arrives outside of the agent's permissions. Without it, redirected answers cannot be
   * observed.
   */
  witness?: CheckIdentity | undefined
  /** Other agents. The check tries to write to the bucket of one of them. */
  peers?: readonly string[] | undefined
  prefix?: string | undefined
  stream?: string | undefined
  tls?: TlsFiles | undefined
}

/** Milliseconds to wait for an aimed message after the same attempt with an own reply subject was answered. */
const GRACE_MS = 700
const HEARTBEAT_NS = 100_000_000
const INACTIVE_NS = 2_000_000_000
const NOTHING = new Uint8Array(0)

/**
 * Connects as an agent to a running installation and tries, harmlessly, what its permissions must not allow: publishing and reading outside of them,
 * and making the server publish to a subject of its choice. Throws BusUnreachable if the agent cannot connect.
 */
export async function checkAgent(options: AgentCheckOptions): Promise<AgentCheck> {
  const { servers, agent, witness: who, tls } = options
  const subjects = new Subjects(options.prefix, options.stream)
  const identity = { identity: agent, credentials: options.credentials }
  await using own = await CheckConnection.open(servers, identity, tls)
  await using witness = who && (await CheckConnection.open(servers, who, tls))
  const check = new Check(subjects, own, witness)
  await check.direct(options.peers ?? [])
  if (check.open) return { agent, level: 'open', probes: check.probes, stored: [] }
  await check.bounces()
  await check.apiBounce()
  await check.listening()
  await check.schedules()
  await check.rollups()
  return { agent, level: check.level, probes: check.probes, stored: check.stored }
}

/** Returns true if the server denies this identity an action of dispatchers. Nothing is stored. Throws BusUnreachable. */
export async function isRestricted(
  who: CheckIdentity & { servers: string | string[]; tls?: TlsFiles | undefined; prefix?: string },
): Promise<boolean> {
  await using connection = await CheckConnection.open(who.servers, who, who.tls)
  const { subject, data, headers } = admission(new Subjects(who.prefix))
  return (await connection.request(subject, data, headers ? { headers } : {})).kind !== 'answered'
}

interface Aimed {
  probe: BounceProbe
  subject: string
  arrived: boolean
  stop: () => void
}

class Check {
  readonly probes: ProbeResult[] = []
  readonly stored: string[] = []
  readonly #subjects: Subjects
  readonly #agent: string
  readonly #own: CheckConnection
  readonly #witness: CheckConnection | undefined
  #open = false

  constructor(subjects: Subjects, own: CheckConnection, witness: CheckConnection | undefined) {
    this.#subjects = subjects
    this.#own = own
    this.#agent = own.identity
    this.#witness = witness
  }

  get open(): boolean {
    return this.#open
  }

  get level(): AgentCheck['level'] {
    if (this.probes.some(({ state }) => state === 'possible')) return 'permissions'
    return this.probes.some(({ state }) => state === 'untested') ? 'unknown' : 'isolated'
  }

  /** Publishes to subjects of others. Stops after the first two if both are possible: then the server restricts nothing. */
  async direct(peers: readonly string[]): Promise<void> {
    for (const [at, { text, ...attempt }] of directProbes(this.#subjects, this.#agent, peers).entries()) {
      const { kind } = await this.#own.request(attempt.subject, attempt.data, attempt.headers ? { headers: attempt.headers } : {})
      this.#add(`direct: ${text}`, kind === 'answered' ? 'possible' : 'refused', `publish to ${attempt.subject}: ${saying(kind)}`)
      this.#open = at === 1 && this.probes.every(({ state }) => state === 'possible')
      if (this.#open) return
    }
  }

  /** Aims answers at the witness's inbox. */
  async bounces(): Promise<void> {
    const aimed: Aimed[] = []
    for (const probe of bounceProbes(this.#subjects, this.#agent)) {
      const attempt = await this.#usable(probe)
      if (!attempt) this.#add(`bounce: ${probe.text}`, 'refused', 'the agent may not start it')
      else if (!this.#witness) this.#add(`bounce: ${probe.text}`, 'untested', 'no second connection to observe the result')
      else aimed.push(await this.#aim(probe, attempt, this.#witness))
    }
    await waitFor(() => aimed.every(({ arrived }) => arrived), GRACE_MS)
    for (const { probe, subject, arrived, stop } of aimed) {
      stop()
      const where = arrived
        ? `${subject} makes the server publish it to the inbox of ${this.#witness?.identity}, or to any other subject`
        : `${subject} answers only the agent itself`
      this.#add(`bounce: ${probe.text}`, arrived ? 'possible' : 'refused', where)
    }
  }

  /**
   * Tries to make the server call the JetStream API with a body of the agent: stores the body in the agent's bucket and aims a direct get of it at
   * the API.
   */
  async apiBounce(): Promise<void> {
    const name = 'bounce: a call of the JetStream API'
    // The same name in every check, because its request is stored once; another for each agent, because several checks may run at once.
    const consumer = `${NOBODY}-${this.#agent}`
    const inbox = this.#own.steadyInbox
    let heard = false
    const stop = this.#own.hear(inbox, () => {
      heard = true
    })
    try {
      const made = await this.#aimMarker(
        consumerRequest(this.#subjects, consumer, inbox),
        `${API}.CONSUMER.CREATE.${this.#subjects.stream}.${consumer}`,
      )
      if (made !== 'sent') return this.#add(name, made, made === 'refused' ? 'the agent may not store parts' : NO_BUCKET)
      const possible = (await waitFor(() => heard, GRACE_MS)) || (await this.#consumerExists(consumer))
      this.#add(
        name,
        possible ? 'possible' : 'refused',
        possible ? 'a consumer for messages of others was created' : 'nothing reached the API',
      )
      if (possible) await this.#aimMarker(NOTHING, `${API}.CONSUMER.DELETE.${this.#subjects.stream}.${consumer}`)
    } finally {
      stop()
    }
  }

  /** Listens to the witness's requests and their answers. */
  async listening(): Promise<void> {
    const name = 'listen: requests and replies of other agents'
    const witness = this.#witness
    const inbox = `${inboxPrefixOf(witness?.identity ?? NOBODY)}.`
    const wanted = ['>', `${inbox}>`, `${this.#subjects.prefix}returned.>`, `${API}.>`, this.#subjects.service('ask')]
    let heard: string | undefined
    const stops = wanted.map((subject) =>
      this.#own.hear(subject, (message) => {
        if (message.subject.startsWith(inbox) || message.reply?.startsWith(inbox)) heard ??= message.subject
      }),
    )
    const refused = await this.#own.refusals()
    const allowed = wanted.filter((subject) => !refused.has(`subscription ${subject}`))
    if (witness) {
      await witness.request(`${API}.STREAM.INFO.${this.#subjects.stream}`, NOTHING)
      await witness.request(this.#subjects.ask(witness.identity), NOTHING, { timeout_ms: GRACE_MS })
      await waitFor(() => heard !== undefined, GRACE_MS)
    }
    for (const stop of stops) stop()
    if (heard !== undefined) this.#add(name, 'possible', `${heard} was heard`)
    else if (witness || allowed.length === 0) this.#add(name, 'refused', 'nothing was heard')
    else this.#add(name, 'untested', `it may subscribe to ${allowed.join(', ')}; no second connection to send a message`)
  }

  /** Checks message schedules: a stream that allows them publishes messages later to a subject that the sender names. */
  async schedules(): Promise<void> {
    const name = 'schedule: messages that the stream publishes later'
    const answer = await this.#witness?.request(`${API}.STREAM.INFO.${this.#subjects.stream}`, NOTHING)
    if (answer?.kind !== 'answered') return this.#add(name, 'untested', 'the configuration of the stream cannot be read')
    const { config } = JSON.parse(answer.message.string()) as { config?: { allow_msg_schedules?: boolean } }
    const on = config?.allow_msg_schedules === true
    this.#add(name, on ? 'possible' : 'refused', on ? 'allow_msg_schedules is on' : 'allow_msg_schedules is off')
  }

  /** Checks rollups: a message with `Nats-Rollup: all` removes all others from its stream, so streams that agents share must not allow it. */
  async rollups(): Promise<void> {
    const name = 'rollup: messages that delete messages of other agents'
    const on: string[] = []
    for (const stream of [this.#subjects.stream, `KV_${this.#subjects.bucket('presence')}`]) {
      const answer = await this.#witness?.request(`${API}.STREAM.INFO.${stream}`, NOTHING)
      if (answer?.kind !== 'answered') return this.#add(name, 'untested', `the configuration of ${stream} cannot be read`)
      const { config } = JSON.parse(answer.message.string()) as { config?: { allow_rollup_hdrs?: boolean } }
      if (config?.allow_rollup_hdrs === true) on.push(stream)
    }
    this.#add(
      name,
      on.length > 0 ? 'possible' : 'refused',
      on.length > 0 ? `allow_rollup_hdrs is on: ${on.join(', ')}` : 'allow_rollup_hdrs is off',
    )
  }

  #add(probe: string, state: ProbeState, text: string): void {
    this.probes.push({ probe, state, text })
  }

  /** Returns the first attempt that is answered when it uses an own reply subject. */
  async #usable(probe: BounceProbe): Promise<Attempt | undefined> {
    for (const attempt of probe.attempts) if ((await this.#honest(probe, attempt)).kind === 'answered') return attempt
    return undefined
  }

  #honest({ aimed_by }: BounceProbe, { subject, data, headers }: Attempt): Promise<Answer> {
    if (aimed_by === undefined) return this.#own.request(subject, data, headers ? { headers } : {})
    const inbox = this.#own.ownInbox()
    return this.#own.request(subject, data, { headers: { ...headers, [aimed_by]: inbox }, answerIn: inbox })
  }

  /**
   * Makes an attempt whose answer should go to the witness, and then the same with an own reply subject: its answer arrives after the aimed one was
   * handled.
   */
  async #aim(probe: BounceProbe, attempt: Attempt, witness: CheckConnection): Promise<Aimed> {
    const target = witness.ownInbox()
    const { subject, data, headers } = attempt
    const aimed: Aimed = {
      probe,
      subject,
      arrived: false,
      stop: witness.hear(target, () => {
        aimed.arrived = true
      }),
    }
    // Makes sure that the server has the subscription first.
    await witness.refusals()
    if (probe.aimed_by === undefined) this.#own.publish(subject, data, { reply: target, ...(headers ? { headers } : {}) })
    else this.#own.publish(subject, data, { headers: { ...headers, [probe.aimed_by]: target } })
    await this.#honest(probe, attempt)
    return aimed
  }

  /** Stores a marker in the agent's own bucket, where a subject is written once, and aims a direct get of it. */
  async #aimMarker(body: Uint8Array, target: string): Promise<'sent' | 'refused' | 'untested'> {
    const subject = markerSubject(this.#subjects, this.#agent, body)
    const stored = await this.#own.request(subject, body, {})
    if (stored.kind !== 'answered') return stored.kind === 'refused' ? 'refused' : 'untested'
    const outcome = outcomeOf(stored.message.data)
    const isThere = outcome.kind === 'stored' || (outcome.kind === 'refused' && outcome.reason === 'exists')
    if (!isThere) return 'untested'
    if (!this.stored.includes(subject)) this.stored.push(subject)
    const get = `${API}.DIRECT.GET.OBJ_${this.#subjects.partsBucket(this.#agent)}.${subject}`
    this.#own.publish(get, NOTHING, { reply: target })
    await this.#own.request(get, NOTHING)
    return 'sent'
  }

  async #consumerExists(consumer: string): Promise<boolean> {
    const answer = await this.#witness?.request(`${API}.CONSUMER.INFO.${this.#subjects.stream}.${consumer}`, NOTHING)
    if (answer?.kind !== 'answered') return false
    return !isError(answer.message.string())
  }
}

const NO_BUCKET = 'the agent has no bucket yet: start or register the agent, then check again'

function isError(answer: string): boolean {
  return (JSON.parse(answer) as { error?: object }).error !== undefined
}

function saying(kind: Answer['kind']): string {
  return { answered: 'the server accepted it', refused: 'the server refused it', nothing: 'no message arrived' }[kind]
}

/** Request for a consumer that receives no messages but heartbeats, and that the server removes automatically. */
function consumerRequest(subjects: Subjects, name: string, inbox: string): Uint8Array {
  const config = {
    name,
    deliver_subject: inbox,
    ack_policy: 'none',
    deliver_policy: 'new',
    replay_policy: 'instant',
    filter_subject: subjects.request(NOBODY, NOBODY),
    headers_only: true,
    idle_heartbeat: HEARTBEAT_NS,
    inactive_threshold: INACTIVE_NS,
    mem_storage: true,
    num_replicas: 1,
  }
  return new TextEncoder().encode(JSON.stringify({ stream_name: subjects.stream, config, action: 'create' }))
}

async function waitFor(holds: () => boolean, ms: number): Promise<boolean> {
  const deadline = performance.now() + ms
  while (!holds() && performance.now() < deadline) await new Promise((again) => setTimeout(again, 20))
  return holds()
}
