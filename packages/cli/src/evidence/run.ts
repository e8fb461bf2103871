import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Subjects } from '@passover/bus'
import { keyText } from '@passover/schemas'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { CliFailure } from '../errors.js'
import { fileErrorReason } from '../file-error.js'
import { count, formatCommands } from '../terminal/text.js'
import { collectEvidence, omissionText, verifyEntries } from '../verify/collect-pass.js'
import { entryText } from '../verify/findings.js'
import { installationParts, type LookUpPart } from '../verify/parts.js'
import type { Verdict } from '../verify/verify-archive.js'
import { type EvidenceBundle, unbundleEntry } from './bundle.js'
import { bundleTitle, keyFingerprint, openEvidence, publicKeyPem, sealEvidence } from './sign.js'
import { loadSigningKey } from './signing-key.js'

export interface EvidenceFlags {
  out?: string
  signWith?: string
  from?: string
  to?: string
  idWindow?: number
}

/** `passover evidence <id>` */
export async function runEvidence({ terminal, directory, person, ...context }: Context, flags: EvidenceFlags, id: string): Promise<number> {
  await using bus = await connectPerson({ terminal, directory, person, ...context })
  const evidence = await collectEvidence(bus, { id, from: flags.from, to: flags.to, id_window_ms: flags.idWindow })
  const { key, path, made } = loadSigningKey({ file: flags.signWith && resolve(directory, flags.signWith), directory })
  const bundle = sealEvidence(evidence, { key, made_by: person, made_at: bus.now() })
  const file = resolve(directory, flags.out ?? `evidence-${evidence.pass.id}.json`)
  writeFileSync(file, `${JSON.stringify(bundle, null, 1)}\n`)
  const fingerprint = keyFingerprint(bundle.seal.public_key)
  const verdict = await verifyEntries(evidence, { id_window_ms: evidence.id_window_ms, parts: await installationParts(bus) })
  const told = {
    file,
    pass: evidence.pass,
    entries: bundle.entries.length,
    segments: bundle.segments.length,
    parts: evidence.parts.size,
    fingerprint,
    public_key: bundle.seal.public_key,
    ...(evidence.left_out.length > 0 ? { left_out: evidence.left_out } : {}),
    ok: verdict.ok,
    ...(verdict.first ? { first: verdict.first } : {}),
  }
  terminal.show(told, () =>
    [
      `Wrote ${file}: ${count(told.entries, 'entry', 'entries')} about ${keyText(evidence.pass)}, ${told.segments === 0 ? 'not archived yet' : `with the digests of ${count(told.segments, 'archived segment')}`}.`,
      ...(told.parts > 0 ? [`With the bytes of ${count(told.parts, 'large part')}.`] : []),
      ...evidence.left_out.map(omissionText),
      `Signed with ${path}${made ? ' (just created)' : ''}, key ${fingerprint}`,
      ...(verdict.first ? [`✗ The stored data has a fault: ${entryText(verdict.first)}`] : []),
      formatCommands('To verify the file without a server: passover evidence verify <file> --key <fingerprint>'),
    ].join('\n'),
  )
  return verdict.ok ? 0 : 1
}

/** `passover evidence key`: prints the public key and fingerprint that others need to trust bundles signed here. */
export async function runEvidenceKey({ terminal, directory }: Context, { signWith }: Pick<EvidenceFlags, 'signWith'>): Promise<number> {
  const { key, path } = loadSigningKey({ file: signWith && resolve(directory, signWith), directory })
  const public_key = publicKeyPem(key)
  const fingerprint = keyFingerprint(public_key)
  terminal.show({ file: path, fingerprint, public_key }, () => `${fingerprint}\n${public_key}`)
  return 0
}

export interface EvidenceVerifyFlags {
  key?: string
}

/** `passover evidence verify <file>` */
export async function runEvidenceVerify({ terminal, directory }: Context, { key }: EvidenceVerifyFlags, file: string): Promise<number> {
  const opened = openEvidence(readBundleText(resolve(directory, file)), trustedKey(key, directory))
  if (!opened.ok) {
    terminal.show({ ok: false, what: opened.what }, () => `✗ ${file}: ${opened.what}`)
    return 1
  }
  const { bundle, fingerprint } = opened
  const { seal } = bundle
  const entries = bundle.entries.map(unbundleEntry)
  const verdict = await verifyEntries(
    { entries, subjects: new Subjects(seal.prefix || undefined) },
    { id_window_ms: seal.id_window_ms, parts: partsIn(bundle) },
  )
  const { pass, made_by, made_at, head, left_out = [] } = seal
  terminal.show(
    {
      ...verdict,
      pass,
      made_by,
      made_at,
      fingerprint,
      archived_segments: seal.segments.map(({ k }) => k),
      ...(head ? { head } : {}),
      ...(left_out.length > 0 ? { left_out } : {}),
    },
    () => verifiedText({ verdict, title: bundleTitle(bundle), fingerprint, trusted: key !== undefined, entries: entries.length, left_out }),
  )
  return verdict.ok ? 0 : 1
}

/** Looks up parts in the bundle. {@link openEvidence} has already checked their hashes; parts that are not in the bundle are `elsewhere`. */
function partsIn({ parts = [] }: EvidenceBundle): LookUpPart {
  const sizes = new Map(parts.map(({ hash, data }) => [hash, Buffer.byteLength(data, 'base64')]))
  return async ({ hash, size }) => {
    const found = sizes.get(hash)
    if (found === undefined) return 'elsewhere'
    return found === size ? 'whole' : { fault: 'does not match its hash' }
  }
}

function verifiedText(told: {
  verdict: Verdict
  title: string
  fingerprint: string
  trusted: boolean
  entries: number
  left_out: readonly string[]
}): string {
  const { verdict, title, fingerprint, trusted, entries } = told
  const trust = trusted
    ? `Signed with the expected key, ${fingerprint}`
    : `Signed with ${fingerprint}: compare it with the fingerprint that the signer gave you, or set it with --key`
  const found = verdict.first
    ? `✗ The signature is valid, but the signed data has a fault: ${entryText(verdict.first)}`
    : `The signature is valid and no fault was found: ${entries} entries.`
  const missing = verdict.parts?.elsewhere ?? 0
  const parts = missing > 0 ? [`! ${count(missing, 'large part')} not included in the file: only their hashes are signed.`] : []
  return [
    title,
    found,
    trust,
    ...told.left_out.map(omissionText),
    ...parts,
    ...verdict.remarked.map((entry) => `! ${entryText(entry)}`),
  ].join('\n')
}

/** Returns a fingerprint unchanged; anything else is the path of a key file, whose content is returned. */
function trustedKey(key: string | undefined, directory: string): string | undefined {
  if (key === undefined || key.startsWith('SHA256:')) return key
  const path = resolve(directory, key)
  if (!existsSync(path))
    throw new CliFailure('E042', `--key: there is no file ${path}`, { hint: 'give a PEM file, or the fingerprint: SHA256:…', exit: 2 })
  return readBundleText(path)
}

function readBundleText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new CliFailure(
      'E041',
      `${path} cannot be read: ${fileErrorReason(error) ?? (error instanceof Error ? error.message : String(error))}`,
    )
  }
}
