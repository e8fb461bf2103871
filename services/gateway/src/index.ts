/**
 * @passover/gateway: the HTTP API (OpenAPI 3.1 at /openapi.json) and its event feed.
 *
 * I1  Every request runs under the name of the token's owner, on a connection with that owner's own credentials: the server and the audit service
 *     refuse the gateway whatever they would refuse the owner (decision 77). The scopes of a token narrow these rights and never widen them.
 * I2  The same zod schemas parse requests, type the handlers and generate the OpenAPI document.
 * I3  Every response that is not a success is a problem (RFC 9457) with a code of the error table. A request that fails to parse stores nothing.
 * I4  The event ids of a feed are stream sequences: no gaps and no duplicates when readers reconnect or gateways restart.
 * I5  The gateway is stateless: it queries pass data on demand, and any number of gateways may run.
 */

export { type Caller, SCOPES, type Scope, type Tokens } from './auth/caller.js'
export type { ConnectAs } from './auth/connection-pool.js'
export { type NewToken, type ShownToken, TokenFile } from './auth/token-file.js'
export { TokenFileError } from './http/problem.js'
export { type GatewayOptions, type GatewaySettings, gatewayOptions } from './options.js'
export { type Gateway, type GatewayDeps, NeedsTokensError, startGateway } from './server/gateway.js'
export { ListenError, type Listening, PortTakenError } from './server/listen.js'
export { openApiDocument } from './server/openapi-document.js'
