import { Command } from 'commander'
import { action } from '../../connection/context.js'
import type { EvidenceFlags, EvidenceVerifyFlags } from '../../evidence/run.js'
import { durationOption } from '../../input/options.js'

/** `passover evidence <id>`, `passover evidence verify <file>`, `passover evidence key` */
export function evidenceCommand(): Command {
  return new Command('evidence')
    .description('write all that is stored of a pass into one signed file, which can be verified anywhere')
    .argument('<id>', 'its id, or the beginning of it')
    .option('--out <file>', 'where to (default: evidence-<id>.json)')
    .option('--sign-with <file>', "an Ed25519 key in PEM form (default: the project's own, made at first use)")
    .option('--from <agent>', 'of this originator, where several passes share the id')
    .option('--to <agent>', 'of this subagent')
    .option('--id-window <time>', 'the id window of the installation (default: as its stream says)', durationOption('--id-window'))
    .addHelpText(
      'after',
      '\nIt holds every message of the pass and of those above it, the versions of the policy and the records of the agents that it was decided by, and the digests\nof the archived segments that it stands in; of parts that lie apart, the bytes.\nThe key that signs stays in .passover/evidence.key (or --sign-with); whoever verifies gets its fingerprint, or its public half, by another way than the file:\n  passover evidence key\n\nExamples:\n  passover evidence 0abcdef1 --out pass.json\n  passover evidence verify pass.json --key SHA256:…',
    )
    .addCommand(verifyFile())
    .addCommand(keyCommand())
    .action(
      action<EvidenceFlags, [string]>(async (context, flags, id) => {
        const { runEvidence } = await import('../../evidence/run.js')
        return runEvidence(context, flags, id)
      }),
    )
}

function keyCommand(): Command {
  return new Command('key')
    .description('print the public half of the key that signs, and its fingerprint; it is made at its first use')
    .option('--sign-with <file>', "an Ed25519 key in PEM form (default: the project's own)")
    .action(
      action<EvidenceFlags, []>(async (context, flags) => {
        const { runEvidenceKey } = await import('../../evidence/run.js')
        return runEvidenceKey(context, flags)
      }),
    )
}

function verifyFile(): Command {
  return new Command('verify')
    .description('check such a file: signature, every entry, and that it holds together; needs no server')
    .argument('<file>', 'the file')
    .option('--key <key>', 'the key that it must be signed with: its fingerprint, or a file with the public key')
    .action(
      action<EvidenceVerifyFlags, [string]>(async (context, flags, file) => {
        const { runEvidenceVerify } = await import('../../evidence/run.js')
        return runEvidenceVerify(context, flags, file)
      }),
    )
}
