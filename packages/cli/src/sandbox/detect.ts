import { runChild } from '../process/child-process.js'
import { launchCommand } from './launch.js'
import { buildLayout, type Layout, type LayoutOptions } from './layout.js'
import type { Bubblewrap, Mechanism, Unshare } from './mechanism.js'
import { socketFilter } from './seccomp.js'

const PROBE_TIMEOUT_MS = 10_000
const SIZED_SINCE = [0, 7] as const

/** Finds the strongest mechanism that works here. Tries each one with the options that commands get, since a kernel or a container may refuse. */
export async function detectMechanism(options: LayoutOptions): Promise<Mechanism> {
  if (process.platform !== 'linux') return { kind: 'none', why: 'namespaces exist on Linux only' }
  const layout = buildLayout(options)
  const probe = new Probe(options, layout)
  const { found, why } = await tryBubblewrap(probe)
  if (found) return found
  const modes: Unshare['mode'][] = process.getuid?.() === 0 ? ['root', 'user'] : ['user']
  for (const network of [true, false]) {
    for (const mode of modes) {
      const mechanism: Unshare = { kind: 'unshare', mode, network, why }
      if ((await probe.confines(mechanism)).works) return mechanism
    }
  }
  return { kind: 'none', why }
}

async function tryBubblewrap(probe: Probe): Promise<{ found?: Bubblewrap; why: string }> {
  const told = await probe.run(['bwrap', '--version'])
  const version = /(\d+)\.(\d+)\.?\d*/.exec(told.stdout)
  if (!version) return { why: 'bubblewrap is not installed' }
  const [text, major, minor] = version
  const graceful = (await probe.run(['env', '--default-signal=TERM', 'true'])).exit === 0
  const sized = Number(major) > SIZED_SINCE[0] || Number(minor) >= SIZED_SINCE[1]
  let why = ''
  for (const network of [true, false]) {
    const found: Bubblewrap = { kind: 'bubblewrap', version: text, network, sized, graceful, filter: network ? socketFilter() : undefined }
    const { works, error } = await probe.confines(found)
    if (works) return { found, why }
    why ||= error === '' ? 'bubblewrap does not confine commands here' : `bubblewrap does not work here (${error})`
  }
  return { why }
}

/**
 * Returns a script that succeeds only in a working sandbox: its own /proc, a directory that is not writable, no network interface except loopback,
 * and a seccomp filter.
 */
function proofOf(mechanism: Mechanism): string {
  const checks = ['[ "$(ls -d /proc/[0-9]* | wc -l)" -lt 10 ]', '! [ -w . ]']
  if (mechanism.kind !== 'none' && mechanism.kind !== 'bubblewrap' && mechanism.network)
    checks.push('[ "$(grep -c : /proc/net/dev)" -le 1 ]')
  if (mechanism.kind === 'bubblewrap' && mechanism.network) {
    checks.push('[ "$(grep -c : /proc/net/dev)" -le 1 ]')
    if (mechanism.filter) checks.push("grep -q '^Seccomp:.*2' /proc/self/status")
  }
  return checks.join(' && ')
}

class Probe {
  readonly #options: LayoutOptions
  readonly #layout: Layout

  constructor(options: LayoutOptions, layout: Layout) {
    this.#options = options
    this.#layout = layout
  }

  async run([program = '', ...args]: string[], filter?: Buffer) {
    const { directory, env, tools } = this.#options
    const command = [tools.get(program) ?? program, ...args]
    const unsuccessful = { exit: 127, stdout: '', stderr: '' }
    const signal = AbortSignal.timeout(PROBE_TIMEOUT_MS)
    const fixed = { input: '', cwd: directory, kill_after_ms: 100, max_output_bytes: 4096, gated: false, onStderr: () => undefined }
    return runChild({ ...fixed, command, env, signal, filter }).catch(() => unsuccessful)
  }

  async confines(mechanism: Mechanism): Promise<{ works: boolean; error: string }> {
    const no_network = mechanism.kind !== 'none' && mechanism.network
    const command = launchCommand({
      command: ['sh', '-c', proofOf(mechanism)],
      mechanism,
      layout: this.#layout,
      read_only: true,
      no_network,
      tied: false,
      gated: false,
      limited: false,
      tools: this.#options.tools,
    })
    const { exit, stderr } = await this.run(command, mechanism.kind === 'bubblewrap' ? mechanism.filter : undefined)
    return { works: exit === 0, error: stderr.trim().split('\n')[0] ?? '' }
  }
}
