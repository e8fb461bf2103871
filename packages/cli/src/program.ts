import { Command } from 'commander'
import { agentsCommand } from './commands/agents.js'
import { applyCommand, undoCommand } from './commands/apply.js'
import { auditCommand } from './commands/audit.js'
import { authCommand } from './commands/auth.js'
import { cancelCommand } from './commands/cancel.js'
import { chaosCommand } from './commands/chaos.js'
import { completionCommand } from './commands/completion.js'
import { configCommand } from './commands/config.js'
import { approveCommand, denyCommand } from './commands/decide.js'
import { dlqCommand } from './commands/dlq.js'
import { doctorCommand } from './commands/doctor.js'
import { evidenceCommand } from './commands/evidence.js'
import { gatewayCommand } from './commands/gateway.js'
import { inboxCommand } from './commands/inbox.js'
import { initCommand } from './commands/init.js'
import { listCommand } from './commands/list.js'
import { logsCommand } from './commands/logs.js'
import { policyCommand } from './commands/policy.js'
import { replayCommand } from './commands/replay.js'
import { requestCommand } from './commands/request.js'
import { retryCommand } from './commands/retry.js'
import { showCommand } from './commands/show.js'
import { topCommand } from './commands/top.js'
import { upCommand } from './commands/up.js'
import { verifyCommand } from './commands/verify.js'
import { watchCommand } from './commands/watch.js'
import { workCommand } from './commands/work.js'
import { EXIT_CODES_HELP } from './failure.js'
import { refuseUnknown } from './no-command.js'
import { write } from './output/writer.js'
import { typed } from './text.js'
import { VERSION } from './version.js'

/** The command tree. */
export function buildProgram(): Command {
  const program = new Command('passover')
    .description('Hand work to another agent, and be sure of what comes back.')
    .version(VERSION, '-V, --version', 'print the version')
    .option('--json', 'print one JSON document, errors included')
    .option('--jsonl', 'print one JSON document a line, for streams')
    .option('--no-color', 'no colours (also NO_COLOR, TERM=dumb)')
    .option('--no-input', 'never ask')
    .option('--as <person>', "the person who acts (default: PASSOVER_AS, else the system's user)")
    .option('--server <url>', 'the server (default: PASSOVER_SERVER, .passover/ of the repository, NATS_URL)')
    .option('--directory <path>', 'work as if started there')
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

/** Errors are thrown, never printed or exited on by commander itself. */
function prepare(command: Command, program: Command): void {
  command.exitOverride()
  command.configureOutput({ writeOut: (text) => write('stdout', typed(text)), writeErr: () => {}, outputError: () => {} })
  // Options of the command above, such as --port of `gateway`, are not those of `gateway token add`.
  const globals = program.options.filter(({ hidden }) => !hidden)
  command.configureHelp({ showGlobalOptions: true, visibleGlobalOptions: (shown) => (shown === program ? [] : globals) })
  for (const child of command.commands) prepare(child, program)
}
