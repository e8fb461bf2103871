import type { Account, Operator, SigningKey, User } from '@nats-io/jwt'
import { Algorithms, decode, encodeAccount, encodeGeneric, encodeOperator, encodeUser, fmtCreds, newScopedSigner } from '@nats-io/jwt'
import { createAccount, createOperator, createUser, fromSeed, type KeyPair } from '@nats-io/nkeys'

/** Wraps `@nats-io/jwt` and `@nats-io/nkeys` (both 0.x in spirit): no other file imports them. */

/** An nkey pair as text. The seed signs; the id is the public key, which identifies an account, operator or user to the server. */
export interface KeyText {
  id: string
  seed: string
}

/** Claims of a signed token, without its permissions. */
export interface TokenFacts {
  id: string
  name: string
  /** Seconds since the epoch, the unit in which the server compares. */
  issued_at: number
  expires_at?: number
}

const MAKERS = { operator: createOperator, account: createAccount, user: createUser }

export function createKey(kind: keyof typeof MAKERS): KeyText {
  const pair = MAKERS[kind]()
  return { id: pair.getPublicKey(), seed: new TextDecoder().decode(pair.getSeed()) }
}

export function signOperator(key: KeyText, name: string, claims: Partial<Operator>): Promise<string> {
  return encodeOperator(name, pairOf(key.seed), claims)
}

export interface AccountSigning {
  operator_seed: string
  name: string
  expires_at?: number | undefined
}

export function signAccount(id: string, { operator_seed, name, expires_at }: AccountSigning, claims: Partial<Account>): Promise<string> {
  return encodeAccount(name, id, claims, { signer: pairOf(operator_seed), ...expiry(expires_at) })
}

export interface UserSigning {
  name: string
  /** Seed of the account, or of one of its signing keys, whose template then defines all permissions of the user. */
  signer_seed: string
  /** Id of the account, if a signing key signs. */
  account_id?: string
  expires_at?: number | undefined
}

export function signUser(key: KeyText, { name, signer_seed, account_id, expires_at }: UserSigning, claims: Partial<User>): Promise<string> {
  const signer = pairOf(signer_seed)
  if (account_id === undefined) return encodeUser(name, key.id, signer, claims, expiry(expires_at))
  return encodeUser(name, key.id, account_id, {}, { ...expiry(expires_at), signer, scopedUser: true })
}

/** Returns a signing key of an account: users that it signs have the permissions of the template, whatever their token says. */
export function signingKey(key: KeyText, role: string, template: Partial<User>): SigningKey {
  return newScopedSigner(key.id, role, template)
}

/** Signs a request to delete accounts. */
export function signDeletion(operator: KeyText, accounts: string[]): Promise<string> {
  return encodeGeneric('delete accounts', pairOf(operator.seed), 'generic', { accounts }, { algorithm: Algorithms.v2 })
}

/** Returns the text of a credentials file: the user's token, and the seed that proves its ownership. */
export function credentialsText(token: string, key: KeyText): string {
  return new TextDecoder().decode(fmtCreds(token, pairOf(key.seed)))
}

/** Reads a token and verifies its signature. Throws an Error with the reason if it is invalid. */
export function readToken(token: string): TokenFacts {
  const { sub, name, iat, exp } = decode(token)
  return { id: sub, name, issued_at: iat, ...(exp ? { expires_at: exp } : {}) }
}

function pairOf(seed: string): KeyPair {
  return fromSeed(new TextEncoder().encode(seed))
}

function expiry(expires_at: number | undefined): { exp?: number } {
  return expires_at === undefined ? {} : { exp: expires_at }
}
