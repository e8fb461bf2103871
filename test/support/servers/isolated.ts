import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Bus, openBus, type Principal, Subjects, userOf } from '@passover/bus'
import {
  AccountResolver,
  createInstallation,
  type Installation,
  issueAgent,
  issueAgentUser,
  issueCoreUser,
  issueSystemUser,
  operatorSettings,
  type SignedAccount,
} from '@passover/bus/auth'
import { type FixtureOptions, natsFixture } from './nats.js'
import { openProbe, type PermittedFixture, permittedFixture } from './permitted.js'

/** The same as a permitted fixture, with an account of its own for each agent. */
export interface IsolatedFixture extends PermittedFixture {
  installation: Installation
  resolver: AccountResolver
  /** By name. */
  accounts: Map<string, SignedAccount>
  /** Creates the agent's account on the running server, or replaces it. */
  add(agent: Extract<Principal, { role: 'agent' }>): Promise<SignedAccount>
}

export async function isolatedFixture(principals: Principal[], options: FixtureOptions = {}): Promise<IsolatedFixture> {
  const folder = await mkdtemp(join(tmpdir(), 'passover-accounts-'))
  const installation = await createInstallation()
  const operator = operatorSettings(installation, folder)
  const nats = await natsFixture({ ...options, config: { ...options.config, operator } })
  const system = await issueSystemUser(installation)
  const resolver = await AccountResolver.open({ servers: nats.servers, creds: system.creds })
  const accounts = new Map<string, SignedAccount>()
  const creds = new Map<string, string>()
  const opened: AsyncDisposable[] = [resolver]
  const reported: unknown[] = []
  const keep = <T extends AsyncDisposable>(one: T): T => {
    opened.push(one)
    return one
  }
  const add = async (agent: Extract<Principal, { role: 'agent' }>) => {
    const known = accounts.get(agent.name)
    const account = await issueAgent(installation, agent, known ? { key: known } : {})
    await resolver.push(account.jwt)
    accounts.set(agent.name, account)
    creds.set(agent.name, (await issueAgentUser(agent, account)).creds)
    return account
  }
  for (const principal of principals) {
    if (principal.role === 'agent') await add(principal)
    else creds.set(userOf(principal), (await issueCoreUser(installation, principal)).creds)
  }
  // The core account's own key signs users that its roles do not bind.
  const admin = await issueAgentUser({ role: 'agent', name: 'admin', originates: true, subagent: true }, installation.core)
  // Well-formed, and signed by an operator that this server does not know.
  const foreign = await issueCoreUser(await createInstallation(), { role: 'person', name: 'stranger' })
  const credentials = (principal: Principal) => ({ creds: creds.get(userOf(principal)) ?? foreign.creds })
  return {
    nats,
    subjects: new Subjects(),
    admin: { creds: admin.creds },
    installation,
    resolver,
    accounts,
    add,
    credentials,
    reported,
    async bus(principal): Promise<Bus> {
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
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function identityOf(principal: Principal): string {
  return 'name' in principal ? principal.name : 'passover'
}

/** For `describe.each`: what holds with permissions holds with accounts too. */
export const PERMITTED_MODES = [
  { mode: 'in one account', start: permittedFixture },
  { mode: 'with an account for each agent', start: isolatedFixture },
]
