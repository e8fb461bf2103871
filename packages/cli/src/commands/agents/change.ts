import type { AgentRecord } from '@passover/schemas'
import { Command, Option } from 'commander'
import type { AgentChange } from '../../agents/agent-record.js'
import { action, type Context } from '../../connection/context.js'
import { durationOption, integerOption, newAgentOption, repeatableOption } from '../../input/options.js'
import { formatCommands } from '../../terminal/text.js'

const MAX_COUNT = 1_000_000_000
const MAX_MEMORY_MB = 16_777_216
const MIN_PARTS_BYTES = 1_048_576
const MAX_PARTS_BYTES = 2 ** 50

interface ChangeOptions {
  originates?: 'always' | 'within_a_pass' | 'never'
  subagent?: boolean
  description?: string
  skill?: string[]
  durableReturns?: boolean
  outputSchema?: string
  maxActive?: number
  maxPassesPerMinute?: number
  maxComputeTime?: number
  maxMemory?: number
  partsBytes?: number
  default?: string[]
  unset?: string[]
  file?: string
}

/** `passover agents add <name>` */
export function addCommand(): Command {
  return described(new Command('add').description('register an agent or replace its registration'))
    .addHelpText(
      'after',
      `
Examples:
  passover agents add alice --originates always --no-subagent
  passover agents add reviewer --description "reviews code" --skill typescript --output-schema review.json
  passover agents add builder --max-active 4 --default timeout_ms=600000 --default can_modify_files=true
  passover agents add builder --file builder.json`,
    )
    .action(action<ChangeOptions, [string]>((context, options, name) => change(context, { options, name, must_exist: false })))
}

/** `passover agents set <name>` */
export function setCommand(): Command {
  return described(new Command('set').description('change settings of a registered agent; other settings stay unchanged'))
    .option('--unset <field>', 'remove a default (repeatable)', repeatableOption)
    .addHelpText('after', '\nExamples:\n  passover agents set builder --max-active 8\n  passover agents set builder --unset max_active')
    .action(action<ChangeOptions, [string]>((context, options, name) => change(context, { options, name, must_exist: true })))
}

function described(command: Command): Command {
  return command
    .argument('<name>', 'agent name', newAgentOption)
    .addOption(
      new Option('--originates <when>', 'when it may originate passes (default: within_a_pass for a subagent, else always)').choices([
        'always',
        'within_a_pass',
        'never',
      ]),
    )
    .option('--subagent', 'it receives passes (default for a new agent)')
    .option('--no-subagent', 'it receives no passes')
    .option('--durable-returns', 'keep returns until the agent acknowledges them')
    .option('--no-durable-returns', 'do not keep returns while the agent is offline')
    .option('--description <text>', 'description for other agents and people')
    .option('--skill <word>', 'skill of the agent (repeatable)', repeatableOption)
    .option('--output-schema <file>', 'file with the JSON Schema (2020-12) of its output')
    .option('--max-active <n>', 'maximum number of open passes to it', integerOption('--max-active', 1, MAX_COUNT))
    .option(
      '--max-passes-per-minute <n>',
      'maximum number of passes to it admitted per minute',
      integerOption('--max-passes-per-minute', 1, MAX_COUNT),
    )
    .option(
      '--max-compute-time <time>',
      "time limit of its handler: 30s, 5m (default: the pass's timeout)",
      durationOption('--max-compute-time'),
    )
    .option('--max-memory <mb>', 'memory limit of its command workers in MiB', integerOption('--max-memory', 1, MAX_MEMORY_MB))
    .option(
      '--parts-bytes <n>',
      'size limit of its bucket of large parts',
      integerOption('--parts-bytes', MIN_PARTS_BYTES, MAX_PARTS_BYTES),
    )
    .option('--default <field=value>', 'another default setting of the subagent (repeatable)', repeatableOption)
    .option('--file <path>', 'JSON file with its record; flags override it')
}

interface Change {
  options: ChangeOptions
  name: string
  must_exist: boolean
}

async function change(context: Context, { options, name, must_exist }: Change): Promise<number> {
  const { connectPerson } = await import('../../connection/connect-person.js')
  const { readNameVerification, formatPerson } = await import('../../connection/verified-names.js')
  const { readAgent, writeAgent } = await import('../../agents/agent-store.js')
  const { isActiveAgent } = await import('../../auth/find-keys.js')
  const wanted = await changeOf(context, name, options)
  await using bus = await connectPerson(context)
  if (must_exist) await readAgent(bus, name)
  // The agent may have been added again while no server was running, so that the registry still has it as revoked.
  const returned = !must_exist && isActiveAgent(context.server(), name)
  const { record, before } = await writeAgent(bus, { ...wanted, ...(returned && { revoked_at: null }) })
  const names = await readNameVerification(bus, context)
  const by = formatPerson(bus.identity, names)
  context.terminal.show({ ...record, ...names }, () => changedText(record, { before, by }, options))
  return 0
}

/**
 * Describes the change. Also warns if the agent can now originate passes only within a pass: where registration is open, an unregistered
 * agent is not limited in this way, and people would otherwise learn about it from an E013.
 */
function changedText(
  { name, roles }: AgentRecord,
  { before, by }: { before: AgentRecord | undefined; by: string },
  { originates }: ChangeOptions,
): string {
  const receives = roles.subagent ? 'receives passes' : 'receives no passes'
  const done = `${before ? 'Changed' : 'Registered'} ${name} as ${by}: ${receives}, originates ${roles.originates.replaceAll('_', ' ')}.`
  const unsaid = originates === undefined && roles.originates === 'within_a_pass' && before?.roles.originates !== 'within_a_pass'
  if (!unsaid) return done
  return `${done}\n${formatCommands(`  It can originate passes only while it works on one. To let it originate passes at any time: passover agents set ${name} --originates always`)}`
}

async function changeOf(context: Context, name: string, options: ChangeOptions): Promise<AgentChange> {
  const { readJsonFile } = await import('../../input/read-file.js')
  const { parseDefault } = await import('../../agents/agent-record.js')
  const { outputSchema, maxActive, maxPassesPerMinute, maxComputeTime, maxMemory, file, skill } = options
  const { originates, subagent, description, unset, durableReturns: durable_returns, partsBytes: parts_bytes } = options
  const defaults = {
    ...Object.fromEntries((options.default ?? []).map(parseDefault)),
    ...(maxActive === undefined ? {} : { max_active: maxActive }),
    ...(maxPassesPerMinute === undefined ? {} : { max_passes_per_minute: maxPassesPerMinute }),
    ...(maxComputeTime === undefined ? {} : { max_compute_time_ms: maxComputeTime }),
    ...(maxMemory === undefined ? {} : { max_memory_mb: maxMemory }),
    ...(outputSchema === undefined ? {} : { output_schema: readJsonFile(context.directory, outputSchema) as Record<string, unknown> }),
  }
  const read = file === undefined ? undefined : { path: file, record: readJsonFile(context.directory, file) }
  return { name, file: read, originates, subagent, description, skills: skill, durable_returns, parts_bytes, defaults, unset }
}
