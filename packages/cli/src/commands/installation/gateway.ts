import { Command } from 'commander'
import { action, type Context } from '../../connection/context.js'
import type { TokenOptions } from '../../gateway/tokens.js'
import { durationOption, integerOption, newAgentOption, repeatableOption } from '../../input/options.js'
import { stopSignals } from '../../terminal/stop-signals.js'

interface GatewayFlags {
  port?: number
  host?: string
  tokens?: string
}

const TOKENS = 'token file (default: PASSOVER_GATEWAY_TOKENS, or the token file of the project)'

/** `passover gateway`, `passover gateway token add|list|revoke` */
export function gatewayCommand(): Command {
  return new Command('gateway')
    .description('serve the HTTP API (OpenAPI document, events feed, metrics) until Ctrl-C')
    .option('--port <n>', 'port to listen on (default: 7420; 0: any free port)', integerOption('--port', 0, 65_535))
    .option('--host <address>', 'address to listen on (default: 127.0.0.1, this machine only); other addresses require tokens')
    .option('--tokens <file>', TOKENS)
    .addCommand(tokenCommand())
    .addHelpText(
      'after',
      '\nUntil the first token is created, programs on this machine have read access without a token; an isolated installation always requires\na token. A token acts under the name of its owner and has at most the rights of its owner.\nOn an isolated installation, PASSOVER_GATEWAY_CREDENTIALS names a JSON file with the credentials of the owners.\n\nExamples:\n  passover gateway\n  passover gateway token add --scope read,decide --note laptop\n  passover gateway token add --agent alice',
    )
    .action(action<GatewayFlags, []>(run))
}

async function run(context: Context, { port, host, tokens }: GatewayFlags): Promise<number> {
  const { terminal } = context
  const { serveGateway, resolveTokensFile } = await import('../../gateway/serve.js')
  using signals = stopSignals(() => {})
  await using gateway = await serveGateway(context, context.announcedServer(), { port, host, tokens: resolveTokensFile(context, tokens) })
  const { url } = gateway
  terminal.show(
    { state: 'running', url, document: `${url}/openapi.json` },
    () => `${terminal.colors.green('✓')} HTTP API at ${url}, document at ${url}/openapi.json`,
  )
  await signals.first
  return 0
}

function tokenCommand(): Command {
  const add = new Command('add')
    .description('create a token that acts as you (--as) or as an agent')
    .option('--agent <name>', 'act as this agent, which may originate passes', newAgentOption)
    .option('--scope <scopes>', 'read, create, decide, admin (default: read,decide; for an agent: read,create)', repeatableOption)
    .option('--expires <time>', 'validity, such as 12h or 30d', durationOption('--expires'))
    .option('--note <text>', 'purpose of the token')
    .option('--tokens <file>', TOKENS)
    .action(action<TokenOptions, []>(async (context, options) => (await import('../../gateway/tokens.js')).addToken(context, options)))
  const list = new Command('list')
    .description('list tokens: owner, scopes and purpose; the tokens themselves are not shown')
    .option('--tokens <file>', TOKENS)
    .action(action<TokenOptions, []>(async (context, options) => (await import('../../gateway/tokens.js')).listTokens(context, options)))
  const revoke = new Command('revoke')
    .description('revoke a token')
    .argument('<id>', 'token id, from token list')
    .option('--tokens <file>', TOKENS)
    .action(
      action<TokenOptions, [string]>(async (context, options, id) =>
        (await import('../../gateway/tokens.js')).revokeToken(context, options, id),
      ),
    )
  return new Command('token').description('manage the tokens of the HTTP API').addCommand(add).addCommand(list).addCommand(revoke)
}
