import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Command to start a process in its own network and mount namespaces, and the features that this machine supports there. */
export interface NamespaceSandbox {
  /** Prefix of the command; empty if namespaces are not available. */
  prefix: readonly string[]
  network: boolean
  /** `netem` can change delay, loss and throughput; `tbf` only throughput. */
  shaping: 'netem' | 'tbf' | 'none'
  /** True if a small file system can be mounted. */
  mounts: boolean
  /** Reason why namespaces are not available. */
  why?: string
}

const NO_SANDBOX: NamespaceSandbox = { prefix: [], network: false, shaping: 'none', mounts: false }

/** Detects the supported features by trying them, as root or in a user namespace. */
export async function detectNamespaceSandbox(): Promise<NamespaceSandbox> {
  if (process.platform !== 'linux') return { ...NO_SANDBOX, why: 'network namespaces are of Linux alone' }
  let why = ''
  for (const prefix of [
    ['unshare', '-n', '-m', '--'],
    ['unshare', '-r', '-n', '-m', '--'],
  ]) {
    try {
      const inside = (command: string) => works([...prefix, 'sh', '-c', command])
      await run(prefix[0] ?? '', [...prefix.slice(1), 'sh', '-c', TRY_NETWORK])
      const shaping = (await inside(`${TRY_SHAPING} netem delay 1ms`))
        ? 'netem'
        : (await inside(`${TRY_SHAPING} tbf rate 1mbit burst 16kb latency 50ms`))
          ? 'tbf'
          : 'none'
      return { prefix, network: true, shaping, mounts: await inside('mount -t tmpfs -o size=1m none /mnt') }
    } catch (error) {
      why = firstLine(error)
    }
  }
  return { ...NO_SANDBOX, why }
}

/** Creates a bridge and a namespace connected to it. */
const TRY_NETWORK =
  'set -e; ip link set lo up; ip link add chaos0 type bridge; unshare -n cat </dev/zero >/dev/null & p=$!; sleep 0.2; ip link add chaos1 type veth peer name eth0 netns $p; nsenter -t $p -n ip link set eth0 up; kill $p'
const TRY_SHAPING = 'ip link set lo up; tc qdisc add dev lo root'

async function works(command: readonly string[]): Promise<boolean> {
  return run(command[0] ?? '', command.slice(1)).then(
    () => true,
    () => false,
  )
}

function firstLine(error: unknown): string {
  const { stderr = '', message = '' } = error as { stderr?: string; message?: string }
  return (stderr || message).trim().split('\n')[0] ?? 'not allowed'
}

/** Returns true if the limits of a running process can be changed. This is used to fill a disk if no file system may be mounted. */
export function canLimitFiles(): boolean {
  return process.platform === 'linux' && ['/usr/bin/prlimit', '/bin/prlimit'].some((path) => existsSync(path))
}
