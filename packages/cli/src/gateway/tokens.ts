import { SCOPES, type Scope, type ShownToken, TokenFile } from '@passover/gateway'
import type { Context } from '../connection/context.js'
import { CliFailure, usage } from '../errors.js'
import { renderTable } from '../render/table.js'
import { ago, dateTime } from '../terminal/duration.js'
import { formatCommands } from '../terminal/text.js'
import { gatewayFailure, resolveTokensFile } from './serve.js'

export interface TokenOptions {
  tokens?: string
  agent?: string
  scope?: string[]
  note?: string
  expires?: number
}

/** Creates a token and shows it; it cannot be shown again. */
export async function addToken(context: Context, { tokens, agent, scope, note, expires }: TokenOptions): Promise<number> {
  const file = new TokenFile(resolveTokensFile(context, tokens))
  const kind = agent === undefined ? 'person' : 'agent'
  const scopes = scopesOf(scope ?? (kind === 'agent' ? ['read', 'create'] : ['read', 'decide']))
  if (kind === 'agent' && (scopes.includes('decide') || scopes.includes('admin'))) {
    throw usage('a token of an agent cannot have the scope decide or admin', 'only tokens of people can have these scopes: remove --agent')
  }
  const expires_at = expires === undefined ? undefined : Date.now() + expires
  const { token, shown } = await told(file.add({ name: agent ?? context.person, kind, scopes, note, expires_at }))
  const about = `Token ${shown.id} acts as ${kind} ${shown.name}: ${scopes.join(', ')}. It is shown only once:`
  context.terminal.show({ token, ...shown }, () => [about, '', token].join('\n'))
  return 0
}

/** Maps errors of the token file to CLI errors. */
function told<T>(asked: Promise<T>): Promise<T> {
  return asked.catch((error: unknown) => {
    throw gatewayFailure(error)
  })
}

function scopesOf(given: string[]): Scope[] {
  const names = given.flatMap((one) => one.split(',')).map((one) => one.trim())
  const unknown = names.filter((one) => !(SCOPES as readonly string[]).includes(one))
  if (unknown.length > 0) throw usage(`there is no scope ${unknown.join(', ')}`, `scopes are ${SCOPES.join(', ')}`)
  return [...new Set(names as Scope[])]
}

export async function listTokens(context: Context, { tokens }: TokenOptions): Promise<number> {
  const { terminal } = context
  const all = await told(new TokenFile(resolveTokensFile(context, tokens)).list())
  const now = Date.now()
  terminal.show(all, () =>
    all.length === 0 ? formatCommands('No tokens. To create one: passover gateway token add') : table(all, now, terminal),
  )
  return 0
}

function table(all: ShownToken[], now: number, terminal: Context['terminal']): string {
  return renderTable<ShownToken>(
    [
      { head: 'ID', cell: ({ id }) => id },
      { head: 'ACTS AS', cell: ({ kind, name }) => `${kind} ${name}` },
      { head: 'SCOPES', cell: ({ scopes }) => scopes.join(', ') },
      { head: 'MADE', cell: ({ created_at }) => ago(created_at, now) },
      { head: 'EXPIRES', cell: ({ expires_at }) => (expires_at === undefined ? '' : expires_at <= now ? 'expired' : dateTime(expires_at)) },
      { head: 'NOTE', cell: ({ note }) => note ?? '', shrinks: true },
    ],
    all,
    terminal,
  )
}

/** Revokes the tokens in a file that act under a name, and returns their ids. Throws CliFailure E030 if the file cannot be used. */
export function revokeTokensOfOwner(path: string, name: string): Promise<string[]> {
  return told(new TokenFile(path).revokeAllOf(name))
}

/** Revokes a token. Throws CliFailure E041 if there is none with that id. */
export async function revokeToken(context: Context, { tokens }: TokenOptions, id: string): Promise<number> {
  const revoked = await told(new TokenFile(resolveTokensFile(context, tokens)).revoke(id))
  if (!revoked) throw new CliFailure('E041', `there is no token ${id}`, { hint: 'to list tokens: passover gateway token list' })
  context.terminal.show({ id, revoked: true }, () => `Revoked ${id}; gateways refuse this token from now on.`)
  return 0
}
