/**
 * Isolation by accounts: keys, signed accounts and credentials of an installation in which each agent has an account of its own
 * (docs/architecture/isolation.md). Everything here is plain data; only AccountResolver talks to a server.
 *
 * - There is one list of permissions: imports and permissions both come from `grantsFor`.
 * - Only the operator's seed adds permissions. Agents and services get credentials, never a seed.
 * - Adding, changing or removing an agent changes no other account.
 */

export { CORE_ROLES, type CoreRole } from './core-account.js'
export {
  type AccountOptions,
  type AgentPrincipal,
  type CorePrincipal,
  createInstallation,
  type Installation,
  type InstallationOptions,
  type IssuedUser,
  issueAgent,
  issueAgentUser,
  issueCore,
  issueCoreUser,
  issueSystemUser,
  operatorSettings,
  type SignedAccount,
  type UserOptions,
} from './installation.js'
export { AccountResolver, ResolverError, type ResolverOptions } from './resolver.js'
export { type KeyText, readToken, type TokenFacts } from './tokens.js'
