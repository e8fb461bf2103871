import { connect, credsAuthenticator, errors, type NatsConnection } from '@nats-io/transport-node'
import { type Bus, type Credentials, openBus, type Principal, Subjects, userOf, usersFor } from '@passover/bus'
import { type FixtureOptions, type NatsFixture, natsFixture } from './nats.js'

export type PermittedCredentials = Extract<Credentials, { user: string } | { creds: string }>

/** A fixture whose server knows these principals (and users of the options), and enforces what each may do. */
export interface PermittedFixture extends AsyncDisposable {
  nats: NatsFixture
  subjects: Subjects
  /** Of a user that may do everything in the account that JetStream is in. */
  admin: PermittedCredentials
  /** What openBus takes for a principal. */
  credentials(principal: Principal): PermittedCredentials
  bus(principal: Principal): Promise<Bus>
  /** What buses reported: refused subscriptions, callbacks that threw. */
  reported: unknown[]
  /** A bare client, to try what a dishonest one would. */
  probe(principal: Principal): Promise<Probe>
}

export interface Probe extends AsyncDisposable {
  nc: NatsConnection
  /** Whether the server took it; the answer is the server's, not the client's. */
  publish(subject: string): Promise<'allowed' | 'refused'>
  subscribe(subject: string): Promise<'allowed' | 'refused'>
}

export async function permittedFixture(principals: Principal[], options: FixtureOptions = {}): Promise<PermittedFixture> {
  const subjects = new Subjects()
  const admin = { user: 'admin', pass: 'secret-of-admin' }
  const named = usersFor(principals, subjects, (user) => `secret-of-${user}`)
  const users = [...named, { user: admin.user, password: admin.pass }, ...(options.config?.users ?? [])]
  const nats = await natsFixture({ ...options, config: { ...options.config, users } })
  const credentials = (principal: Principal) => ({ user: userOf(principal), pass: `secret-of-${userOf(principal)}` })
  const opened: AsyncDisposable[] = []
  const reported: unknown[] = []
  const keep = <T extends AsyncDisposable>(one: T): T => {
    opened.push(one)
    return one
  }
  return {
    nats,
    subjects,
    admin,
    credentials,
    reported,
    async bus(principal) {
      const who = { identity: identityOf(principal), credentials: credentials(principal), name: userOf(principal) }
      return keep(await openBus({ servers: nats.servers, ...who, onError: (error) => reported.push(error) }))
    },
    probe: async (principal) =>
      keep(
        await openProbe(nats, {
          user: userOf(principal),
          credentials: credentials(principal),
          inboxPrefix: `_INBOX_${identityOf(principal)}`,
        }),
      ),
    async [Symbol.asyncDispose]() {
      await Promise.allSettled(opened.map((one) => one[Symbol.asyncDispose]()))
      await nats[Symbol.asyncDispose]()
    },
  }
}

function identityOf(principal: Principal): string {
  return 'name' in principal ? principal.name : 'passover'
}

interface Probing {
  user: string
  credentials: PermittedCredentials
  inboxPrefix: string
}

export async function openProbe(nats: NatsFixture, { user, credentials, inboxPrefix }: Probing): Promise<Probe> {
  const login = 'creds' in credentials ? { authenticator: credsAuthenticator(new TextEncoder().encode(credentials.creds)) } : credentials
  const nc = await connect({ servers: nats.servers, inboxPrefix, name: `probe of ${user}`, ...login })
  const refused: { operation: string; subject: string }[] = []
  void (async () => {
    for await (const status of nc.status()) {
      if (status.type === 'error' && status.error instanceof errors.PermissionViolationError) refused.push(status.error)
    }
  })()
  // The server's refusal comes before its answer to the ping; the client hands it on a turn later.
  const verdict = async (operation: string, subject: string) => {
    await nc.flush()
    await new Promise((next) => setImmediate(next))
    return refused.some((one) => one.operation === operation && one.subject === subject) ? 'refused' : 'allowed'
  }
  return {
    nc,
    async publish(subject) {
      nc.publish(subject, 'probe')
      return verdict('publish', subject)
    },
    async subscribe(subject) {
      const subscription = nc.subscribe(subject, { callback: () => {} })
      const answer = await verdict('subscription', subject)
      subscription.unsubscribe()
      return answer
    },
    [Symbol.asyncDispose]: () => nc.close(),
  }
}
