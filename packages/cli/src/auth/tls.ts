import { generateKeyPairSync, randomBytes, X509Certificate } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import forge from 'node-forge'
import { CliFailure } from '../errors.js'
import { writePrivateFile } from './private-file.js'

/** Paths of the server's PEM files, and of the authority that clients verify it with (absent for the system's authorities). */
export interface ServerTls {
  cert: string
  key: string
  ca?: string
}

const DAY_MS = 86_400_000
const AUTHORITY_DAYS = 3_650
const SERVER_DAYS = 397
/** Remaining days of validity at which the development certificate is issued again. */
const RENEW_DAYS = 30
const AUTHORITY = [{ name: 'commonName', value: 'Passover development CA' }]

/**
 * Creates an authority and a certificate for a server on this machine, or returns existing ones that are still valid. For development only,
 * because there is no revocation.
 */
export function createDevelopmentTls(folder: string): ServerTls {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const at = (name: string) => join(folder, name)
  const files = { cert: at('server.pem'), key: at('server.key'), ca: at('ca.pem') }
  if (!existsSync(files.ca) || !existsSync(at('ca.key'))) {
    const authority = createAuthority()
    writePrivateFile(at('ca.key'), authority.key)
    writePrivateFile(files.ca, authority.cert)
  } else if (existsSync(files.key) && daysLeft(files.cert) > RENEW_DAYS) return files
  const issued = issueServer({ cert: readFileSync(files.ca, 'utf8'), key: readFileSync(at('ca.key'), 'utf8') }, hostNames())
  writePrivateFile(files.key, issued.key)
  writePrivateFile(files.cert, issued.cert)
  return files
}

/** Checks the given files. Throws CliFailure E030 that names the unusable one. */
export function loadTls({ cert, key, ca }: ServerTls): ServerTls {
  for (const [flag, path] of [
    ['--tls-cert', cert],
    ['--tls-key', key],
    ['--tls-ca', ca],
  ] as const)
    if (path !== undefined && !existsSync(path)) throw new CliFailure('E030', `${flag}: there is no file ${path}`)
  if (daysLeft(cert) <= 0) throw new CliFailure('E030', `--tls-cert: ${cert} is not a certificate, or has expired`)
  return { cert, key, ...(ca ? { ca } : {}) }
}

/** Returns the days until a certificate expires, or 0 if it has expired or the file is not a certificate. */
export function daysLeft(file: string): number {
  try {
    return Math.max(0, (Date.parse(new X509Certificate(readFileSync(file)).validTo) - Date.now()) / DAY_MS)
  } catch {
    return 0
  }
}

interface Pem {
  cert: string
  key: string
}

function createAuthority(): Pem {
  const key = newKey()
  const cert = newCertificate(AUTHORITY_DAYS, AUTHORITY, key)
  cert.setIssuer(AUTHORITY)
  cert.setExtensions([
    { name: 'basicConstraints', cA: true, pathLenConstraint: 0, critical: true },
    { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    { name: 'subjectKeyIdentifier' },
  ])
  cert.sign(key.signing, forge.md.sha256.create())
  return { cert: forge.pki.certificateToPem(cert), key: key.pem }
}

function issueServer(authority: Pem, hosts: string[]): Pem {
  const key = newKey()
  const cert = newCertificate(SERVER_DAYS, [{ name: 'commonName', value: hosts[0] ?? 'localhost' }], key)
  const issuer = forge.pki.certificateFromPem(authority.cert)
  cert.setIssuer(issuer.subject.attributes)
  cert.setExtensions([
    { name: 'basicConstraints', cA: false, critical: true },
    { name: 'keyUsage', digitalSignature: true, keyEncipherment: true, critical: true },
    { name: 'extKeyUsage', serverAuth: true },
    { name: 'subjectAltName', altNames: hosts.map(alternativeName) },
    { name: 'authorityKeyIdentifier', keyIdentifier: issuer.generateSubjectKeyIdentifier().getBytes() },
  ])
  cert.sign(forge.pki.privateKeyFromPem(authority.key), forge.md.sha256.create())
  return { cert: forge.pki.certificateToPem(cert), key: key.pem }
}

const DNS_NAME = 2
const IP_ADDRESS = 7

function alternativeName(host: string): object {
  return /^[0-9.]+$|:/.test(host) ? { type: IP_ADDRESS, ip: host } : { type: DNS_NAME, value: host }
}

function hostNames(): string[] {
  return [...new Set(['localhost', hostname(), '127.0.0.1', '::1'])]
}

interface Key {
  pem: string
  signing: forge.pki.rsa.PrivateKey
}

/** Generates a key with Node, because node-forge in plain JavaScript takes seconds. */
function newKey(): Key {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })
  const pem = privateKey.export({ type: 'pkcs1', format: 'pem' }).toString()
  return { pem, signing: forge.pki.privateKeyFromPem(pem) }
}

function newCertificate(days: number, subject: forge.pki.CertificateField[], { signing }: Key): forge.pki.Certificate {
  const cert = forge.pki.createCertificate()
  cert.publicKey = forge.pki.setRsaPublicKey(signing.n, signing.e)
  // The leading zero byte keeps the number positive.
  cert.serialNumber = `00${randomBytes(16).toString('hex')}`
  cert.validity.notBefore = new Date(Date.now() - DAY_MS)
  cert.validity.notAfter = new Date(Date.now() + days * DAY_MS)
  cert.setSubject(subject)
  return cert
}
