import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type ConnectionOptions, credsAuthenticator } from '@nats-io/transport-node'
import type { Credentials, Principal } from '@passover/bus'
import {
  AccountResolver,
  type AgentPrincipal,
  createInstallation,
  type Installation,
  issueAgent,
  issueAgentUser,
  issueCoreUser,
  issueSystemUser,
  operatorSettings,
} from '@passover/bus/auth'
import type { ServerSettings } from '@passover/nats-server'
import { waitUntil } from '../wait-for.js'

const ADMIN = 'admin'
/** Name of the person in every run. */
export const PERSON_NAME = 'pat'

/** Access to the servers of a run: without authentication, or with credentials for each principal and an account for each agent. */
export class ClusterAccess {
  readonly #dir: string
  readonly #installation: Installation | undefined

  private constructor(dir: string, installation: Installation | undefined) {
    this.#dir = dir
    this.#installation = installation
  }

  static async create(dir: string, isolated: boolean): Promise<ClusterAccess> {
    if (!isolated) return new ClusterAccess(dir, undefined)
    await mkdir(dir, { recursive: true, mode: 0o700 })
    return new ClusterAccess(dir, await createInstallation())
  }

  /** Folder of the credentials files, `<user>.creds`; `undefined` without authentication. */
  get folder(): string | undefined {
    return this.#installation && this.#dir
  }

  /** Path of the credentials of the person who verifies the run. */
  get verifier(): string | undefined {
    return this.folder && join(this.folder, `${PERSON_NAME}.creds`)
  }

  /** Returns the access settings of a server that keeps its store in `dir`. */
  settings(dir: string): ServerSettings {
    return this.#installation ? { operator: operatorSettings(this.#installation, join(dir, 'accounts')) } : {}
  }

  /** Issues credentials and pushes the accounts of the agents to the servers. */
  async issue(servers: string[], principals: readonly Principal[], deadline_ms: number): Promise<void> {
    const installation = this.#installation
    if (!installation) return
    const agents = principals.filter((one): one is AgentPrincipal => one.role === 'agent')
    const accounts = await Promise.all(agents.map((agent) => issueAgent(installation, agent)))
    const { creds } = await issueSystemUser(installation)
    const push = async () => {
      await using resolver = await AccountResolver.open({ servers, creds })
      for (const { jwt } of accounts) await resolver.push(jwt)
      return true
    }
    if (!(await waitUntil(push, { deadline_ms, every_ms: 500 }))) throw new Error('the accounts could not be pushed')
    for (const [n, agent] of agents.entries()) {
      const account = accounts[n]
      if (account) await this.#write(agent.name, (await issueAgentUser(agent, account)).creds)
    }
    for (const principal of principals) {
      if (principal.role === 'agent') continue
      const user = 'name' in principal ? principal.name : principal.role
      await this.#write(user, (await issueCoreUser(installation, principal)).creds)
    }
    // The signing key of the core account also signs users with all permissions there: those of the checker and the fault injector.
    const admin = { role: 'agent', name: ADMIN, originates: true, subagent: true } as const
    await this.#write(ADMIN, (await issueAgentUser(admin, installation.core)).creds)
  }

  /** Returns the credentials of a user as `openBus` takes them. */
  of(user: string): { credentials?: Credentials } {
    return credentialsIn(this.folder, user)
  }

  /** Returns the credentials of the user with all permissions as the NATS client takes them. */
  async admin(): Promise<Pick<ConnectionOptions, 'authenticator'>> {
    if (!this.folder) return {}
    return { authenticator: credsAuthenticator(await readFile(join(this.folder, `${ADMIN}.creds`))) }
  }

  async #write(user: string, creds: string): Promise<void> {
    await writeFile(join(this.#dir, `${user}.creds`), creds, { mode: 0o600 })
  }
}

/** Returns the credentials of a user in a folder, or none if there is no folder. */
export function credentialsIn(folder: string | undefined, user: string): { credentials?: Credentials } {
  return folder === undefined ? {} : { credentials: { credsFile: join(folder, `${user}.creds`) } }
}
