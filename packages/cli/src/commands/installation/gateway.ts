import { Command } from 'commander'
import { action, type Context } from '../../connection/context.js'
import type { TokenOptions } from '../../gateway/tokens.js'
import { durationOption, integerOption, nameOption, repeatableOption } from '../../input/options.js'
import { stopSignals } from '../../terminal/stop-signals.js'

interface GatewayFlags {
  port?: number
  host?: string
  tokens?: string
}

const TOKENS = 'the file with the tokens (default: PASSOVER_GATEWAY_TOKENS, or the one of the project)'

/** `passover gateway`, `passover gateway token add|list|revoke` */
export function gatewayCommand(): Command {
  return new Command('gateway')
    .description('serve the HTTP API (OpenAPI document, events feed, metrics) until Ctrl-C')
    .option('--port <n>', 'where it listens (default: 7420; 0: any free one)', integerOption('--port', 0, 65_535))
    .option('--host <address>', 'who can reach it (default: 127.0.0.1, this machine only); others need tokens')
    .option('--tokens <file>', TOKENS)
    .addCommand(tokenCommand())
    .addHelpText(
      'after',
      '\nBefore the first token is made it only reads, for programs on this machine; where agents are isolated it always needs a token. A token acts under its owner’s name, and may do what its owner may.\nPASSOVER_GATEWAY_CREDENTIALS names a JSON file of the owners’ own credentials, where the server tells them apart.\n\nExamples:\n  passover gateway\n  passover gateway token add --scope read,decide --note laptop\n  passover gateway token add --agent alice',
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
    .description('make a token that acts as you (--as), or as an agent')
    .option('--agent <name>', 'as this agent, which may pass work over', nameOption)
    .option('--scope <scopes>', 'read, create, decide, admin (default: read,decide; of an agent: read,create)', repeatableOption)
    .option('--expires <time>', 'for so long: 12h, 30d', durationOption('--expires'))
    .option('--note <text>', 'what it is for')
    .option('--tokens <file>', TOKENS)
    .action(action<TokenOptions, []>(async (context, options) => (await import('../../gateway/tokens.js')).addToken(context, options)))
  const list = new Command('list')
    .description('show who has one, and for what; never the tokens themselves')
    .option('--tokens <file>', TOKENS)
    .action(action<TokenOptions, []>(async (context, options) => (await import('../../gateway/tokens.js')).listTokens(context, options)))
  const revoke = new Command('revoke')
    .description('take one back')
    .argument('<id>', 'as list shows it')
    .option('--tokens <file>', TOKENS)
    .action(
      action<TokenOptions, [string]>(async (context, options, id) =>
        (await import('../../gateway/tokens.js')).revokeToken(context, options, id),
      ),
    )
  return new Command('token').description('who may use the HTTP API, and for what').addCommand(add).addCommand(list).addCommand(revoke)
}
