import { Command } from 'commander'
import { agentsCommand } from './commands/agents/index.js'
import { evidenceCommand } from './commands/audit/evidence.js'
import { auditCommand } from './commands/audit/index.js'
import { replayCommand } from './commands/audit/replay.js'
import { verifyCommand } from './commands/audit/verify.js'
import { applyCommand, undoCommand } from './commands/decisions/apply.js'
import { approveCommand, denyCommand } from './commands/decisions/decide.js'
import { dlqCommand } from './commands/decisions/dlq.js'
import { inboxCommand } from './commands/decisions/inbox.js'
import { authCommand } from './commands/installation/auth.js'
import { chaosCommand } from './commands/installation/chaos.js'
import { completionCommand } from './commands/installation/completion.js'
import { configCommand } from './commands/installation/config.js'
import { doctorCommand } from './commands/installation/doctor.js'
import { gatewayCommand } from './commands/installation/gateway.js'
import { initCommand } from './commands/installation/init.js'
import { policyCommand } from './commands/installation/policy.js'
import { upCommand } from './commands/installation/up.js'
import { workCommand } from './commands/installation/work.js'
import { cancelCommand } from './commands/passes/cancel.js'
import { listCommand } from './commands/passes/list.js'
import { logsCommand } from './commands/passes/logs.js'
import { requestCommand } from './commands/passes/request.js'
import { retryCommand } from './commands/passes/retry.js'
import { showCommand } from './commands/passes/show.js'
import { topCommand } from './commands/passes/top.js'
import { watchCommand } from './commands/passes/watch.js'
import { EXIT_CODES_HELP } from './errors.js'
import { VERSION } from './package-info.js'
import { formatCommands } from './terminal/text.js'
import { write } from './terminal/writer.js'
import { refuseUnknown } from './unknown-command.js'

/** Builds the command tree. */
export function buildProgram(): Command {
  const program = new Command('passover')
    .description('Pass work to another agent and get exactly one result.')
    .version(VERSION, '-V, --version', 'print the version')
    .option('--json', 'print one JSON document, also for errors')
    .option('--jsonl', 'print one JSON document per line, for streams')
    .option('--no-color', 'no colours (also NO_COLOR, TERM=dumb)')
    .option('--no-input', 'never prompt')
    .option('--as <person>', 'act as this person (default: PASSOVER_AS, else the system user)')
    .option('--server <url>', 'NATS server (default: PASSOVER_SERVER, .passover/ of the repository, NATS_URL)')
    .option('--directory <path>', 'working directory')
    .helpCommand('help [command]', 'explain a command')
    .showSuggestionAfterError(true)
    .allowExcessArguments(false)

  for (const command of [
    initCommand(),
    upCommand(),
    requestCommand(),
    retryCommand(),
    workCommand(),
    listCommand(),
    showCommand(),
    logsCommand(),
    watchCommand(),
    topCommand(),
    cancelCommand(),
    inboxCommand(),
    approveCommand(),
    denyCommand(),
    applyCommand(),
    undoCommand(),
    dlqCommand(),
    auditCommand(),
    agentsCommand(),
    authCommand(),
    policyCommand(),
    verifyCommand(),
    evidenceCommand(),
    replayCommand(),
    gatewayCommand(),
    doctorCommand(),
    configCommand(),
    chaosCommand(),
    completionCommand(() => program),
  ]) {
    program.addCommand(command)
  }
  prepare(program, program)
  return program.addHelpText('beforeAll', refuseUnknown).addHelpText('after', EXIT_CODES_HELP)
}

/** Makes a command and its subcommands throw errors instead of letting commander print them or exit. */
function prepare(command: Command, program: Command): void {
  command.exitOverride()
  command.configureOutput({ writeOut: (text) => write('stdout', formatCommands(text)), writeErr: () => {}, outputError: () => {} })
  // Lists only the program's global options: those of a parent command, such as `--port` of `gateway`, do not apply to `gateway token add`.
  const globals = program.options.filter(({ hidden }) => !hidden)
  command.configureHelp({ showGlobalOptions: true, visibleGlobalOptions: (shown) => (shown === program ? [] : globals) })
  for (const child of command.commands) prepare(child, program)
}
