import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** How a process is started in network and mount namespaces of its own, and what of them this machine allows. */
export interface NamespaceSandbox {
  /** In front of the command; [] where it is not allowed. */
  prefix: readonly string[]
  network: boolean
  /** `netem`: delay, loss and throughput; `tbf`: throughput alone. */
  shaping: 'netem' | 'tbf' | 'none'
  /** May a small file system be mounted? */
  mounts: boolean
  /** Why not, where not. */
  why?: string
}

const NO_SANDBOX: NamespaceSandbox = { prefix: [], network: false, shaping: 'none', mounts: false }

/** What can be had here: tried, not guessed. As root, or by a user namespace where those are allowed. */
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

/** A bridge, and a room at its other end. */
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

/** Whether a running process's limits can be changed: how a disk is filled where nothing may be mounted. */
export function canLimitFiles(): boolean {
  return process.platform === 'linux' && ['/usr/bin/prlimit', '/bin/prlimit'].some((path) => existsSync(path))
}
