/**
 * @passover/gateway: the HTTP API (OpenAPI 3.1 at /openapi.json) and its feed of events.
 *
 * I1  Everything is done under the name of the token's owner, on a connection with that owner's own credentials: what the owner may not do, the
 *     server and the audit refuse the gateway too (decision 77). A token narrows that by its scopes, and never widens it.
 * I2  What is parsed, what is typed and what the document says are the same zod schemas.
 * I3  Every answer that is no success is a problem (RFC 9457) with a code of the error table; nothing is stored for what is not parsed.
 * I4  A feed's event ids are the stream's sequences: no gap and no double across readers' reconnects and gateways' restarts.
 * I5  It keeps nothing: what it knows of passes it asks, and any number of gateways may run.
 */

export { type Caller, SCOPES, type Scope, type Tokens } from './auth/caller.js'
export type { ConnectAs } from './auth/connection-pool.js'
export { type NewToken, type ShownToken, TokenFile } from './auth/token-file.js'
export { TokenFileError } from './http/problem.js'
export { type GatewayOptions, type GatewaySettings, gatewayOptions } from './options.js'
export { type Gateway, type GatewayDeps, NeedsTokensError, startGateway } from './server/gateway.js'
export { ListenError, type Listening, PortTakenError } from './server/listen.js'
export { openApiDocument } from './server/openapi-document.js'
