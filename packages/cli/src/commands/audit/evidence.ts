import { Command } from 'commander'
import { action } from '../../connection/context.js'
import type { EvidenceFlags, EvidenceVerifyFlags } from '../../evidence/run.js'
import { durationOption } from '../../input/options.js'

/** `passover evidence <id>`, `passover evidence verify <file>`, `passover evidence key` */
export function evidenceCommand(): Command {
  return new Command('evidence')
    .description('write everything stored about a pass to one signed file that can be verified without a server')
    .argument('<id>', 'pass id, or its first characters')
    .option('--out <file>', 'output file (default: evidence-<id>.json)')
    .option('--sign-with <file>', "Ed25519 key in PEM format (default: the project's key, created at first use)")
    .option('--from <agent>', 'originator, if several passes have this id')
    .option('--to <agent>', 'subagent, if several passes have this id')
    .option('--id-window <time>', 'id window of the installation (default: read from its stream)', durationOption('--id-window'))
    .addHelpText(
      'after',
      '\nThe file contains every message of the pass and its ancestors, the policy versions and agent records that applied to it, the digests\nof the archive segments that contain it, and the bytes of its large parts.\nThe signing key stays in .passover/evidence.key (or --sign-with). Send its fingerprint or public key to the verifier separately:\n  passover evidence key\n\nExamples:\n  passover evidence 0abcdef1 --out pass.json\n  passover evidence verify pass.json --key SHA256:…',
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
    .description('print the public key and fingerprint of the signing key; the key is created at first use')
    .option('--sign-with <file>', "Ed25519 key in PEM format (default: the project's key)")
    .action(
      action<EvidenceFlags, []>(async (context, flags) => {
        const { runEvidenceKey } = await import('../../evidence/run.js')
        return runEvidenceKey(context, flags)
      }),
    )
}

function verifyFile(): Command {
  return new Command('verify')
    .description('verify an evidence file: signature, every entry, and consistency; needs no server')
    .argument('<file>', 'evidence file')
    .option('--key <key>', 'required signing key: its fingerprint, or a file with the public key')
    .action(
      action<EvidenceVerifyFlags, [string]>(async (context, flags, file) => {
        const { runEvidenceVerify } = await import('../../evidence/run.js')
        return runEvidenceVerify(context, flags, file)
      }),
    )
}
