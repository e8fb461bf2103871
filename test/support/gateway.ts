import { openBus } from '@passover/bus'
import { type Caller, type Gateway, type GatewaySettings, SCOPES, type Scope, startGateway, type Tokens } from '@passover/gateway'
import { AgentWorld, type AgentWorldOptions } from './agents.js'
import { clockOf, SILENT } from './dispatch.js'

const yes = () => Promise.resolve(true)
/** Tokens of a test: `ann`, `ann~read` (scopes by dots), `agent~alice`. */
export const TEST_TOKENS: Tokens = { any: yes, ever: yes, stands: yes, find: (bearer) => Promise.resolve(callerNamed(bearer)) }

function callerNamed(bearer: string): Caller | undefined {
  const [, agent, name, scopes] = /^(agent~)?([a-z]+)(?:~([a-z.]+))?$/.exec(bearer) ?? []
  if (!name || name === 'nobody') return undefined
  const has = scopes?.split('.') ?? SCOPES
  return { name, kind: agent ? 'agent' : 'person', scopes: has as Scope[], token: bearer }
}

interface Asking {
  method?: string
  body?: unknown
  headers?: Record<string, string>
}

interface Answered<Body> {
  status: number
  headers: Headers
  body: Body
}

/** A world with a gateway before it, that answers without a socket. */
export class GatewayWorld implements AsyncDisposable {
  readonly #opened: AsyncDisposable[] = []

  private constructor(
    readonly agents: AgentWorld,
    public gateway: Gateway,
  ) {}

  static async start(settings: GatewaySettings = {}, options: AgentWorldOptions = {}): Promise<GatewayWorld> {
    const agents = await AgentWorld.start({ audit: { open: true }, ...options })
    const made = new GatewayWorld(agents, undefined as unknown as Gateway)
    made.gateway = await made.another(settings)
    return made
  }

  /** One more gateway, on connections of its own. */
  async another(settings: GatewaySettings = {}, tokens: Tokens = TEST_TOKENS): Promise<Gateway> {
    const { servers } = this.agents.world.nats
    const connect = (identity: string) => openBus({ servers, identity, onError: () => undefined })
    const bus = await openBus({ servers, identity: 'passover', name: 'gateway', onError: () => undefined })
    const gateway = startGateway({ bus, clock: clockOf(bus), log: SILENT, connect, tokens, open_to: 'ann' }, settings)
    this.#opened.unshift(gateway, bus)
    return gateway
  }

  /** Asks as this token's owner. `Body`: what the document says of a success; who looks at a problem looks it up itself. */
  async ask<Body = Record<string, unknown>>(token: string, path: string, init: Asking = {}): Promise<Answered<Body>> {
    const { body, headers = {}, method = body === undefined ? 'GET' : 'POST' } = init
    const response = await this.gateway.app.request(`http://localhost/api/pass-over${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: (text === '' ? undefined : JSON.parse(text)) as Body }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const one of this.#opened) await one[Symbol.asyncDispose]()
    await this.agents[Symbol.asyncDispose]()
  }
}
