import { constants, endianness } from 'node:os'

/** Numbers that a filter needs for a processor: audit number and system call numbers (include/uapi/linux/audit.h, unistd.h). */
interface Architecture {
  audit: number
  socket: number
  socketpair: number
}

const ARCHITECTURES: Partial<Record<NodeJS.Architecture, Architecture>> = {
  x64: { audit: 0xc000003e, socket: 41, socketpair: 53 },
  arm64: { audit: 0xc00000b7, socket: 198, socketpair: 199 },
}
/** The same number on every architecture. */
const IO_URING_SETUP = 425
/** System calls of the x32 ABI carry this bit. No distribution enables that ABI. */
const X32_BIT = 0x40000000

const AF_UNIX = 1
const AF_INET = 2
const AF_INET6 = 10
const AF_NETLINK = 16
const SOCK_STREAM = 1
const SOCK_SEQPACKET = 5
const SOCK_TYPE_MASK = 0xf

// Offsets in struct seccomp_data. Arguments are 64 bits wide; the kernel reads an int, the lower half.
const NUMBER = 0
const ARCH = 4
const ARGUMENT = [16, 24] as const

const LOAD = 0x20
const AND = 0x54
const JUMP_EQUAL = 0x15
const JUMP_AT_LEAST = 0x35
const RETURN = 0x06

const ALLOW = 0x7fff0000
const KILL_PROCESS = 0x80000000
const refuse = (errno: number) => 0x00050000 | errno

type Line = [code: number, value: number, to?: { yes?: Label; no?: Label }] | Label
type Label = 'pair' | 'family' | 'allow' | 'refuse' | 'missing' | 'kill'
const LABELS = ['pair', 'family', 'allow', 'refuse', 'missing', 'kill']

/**
 * Builds the seccomp program that `no_external_calls` adds to the network namespace. It refuses what a network namespace does not cover.
 *
 * - `socket` works only for IPv4, IPv6 and netlink. UNIX sockets reach services by path (docker.sock, ssh-agent, D-Bus), and vsock reaches the
 *   hypervisor.
 * - `socketpair` works only for connected pairs. A datagram pair can send to any path.
 * - `io_uring_setup` fails with ENOSYS, since a ring opens sockets without `socket`.
 * - A call of another architecture (32 bit) kills the process, since its numbers differ.
 *
 * @returns An array of `struct sock_filter` for `bwrap --seccomp`, or undefined for a processor whose numbers are unknown.
 */
export function socketFilter(arch: NodeJS.Architecture = process.arch): Buffer | undefined {
  const known = ARCHITECTURES[arch]
  if (!known || endianness() !== 'LE') return undefined
  return assemble([
    [LOAD, ARCH],
    [JUMP_EQUAL, known.audit, { no: 'kill' }],
    [LOAD, NUMBER],
    [JUMP_AT_LEAST, X32_BIT, { yes: 'missing' }],
    [JUMP_EQUAL, IO_URING_SETUP, { yes: 'missing' }],
    [JUMP_EQUAL, known.socketpair, { yes: 'pair' }],
    [JUMP_EQUAL, known.socket, { yes: 'family', no: 'allow' }],
    'pair',
    [LOAD, ARGUMENT[0]],
    [JUMP_EQUAL, AF_UNIX, { no: 'refuse' }],
    [LOAD, ARGUMENT[1]],
    [AND, SOCK_TYPE_MASK],
    [JUMP_EQUAL, SOCK_STREAM, { yes: 'allow' }],
    [JUMP_EQUAL, SOCK_SEQPACKET, { yes: 'allow', no: 'refuse' }],
    'family',
    [LOAD, ARGUMENT[0]],
    [JUMP_EQUAL, AF_INET, { yes: 'allow' }],
    [JUMP_EQUAL, AF_INET6, { yes: 'allow' }],
    [JUMP_EQUAL, AF_NETLINK, { yes: 'allow', no: 'refuse' }],
    'allow',
    [RETURN, ALLOW],
    'refuse',
    [RETURN, refuse(constants.errno.EAFNOSUPPORT)],
    'missing',
    [RETURN, refuse(constants.errno.ENOSYS)],
    'kill',
    [RETURN, KILL_PROCESS],
  ])
}

const isLabel = (line: Line): line is Label => typeof line === 'string' && LABELS.includes(line)

/** Resolves labels to forward distances and writes each instruction as `{ u16 code; u8 jt; u8 jf; u32 k }`. */
function assemble(lines: Line[]): Buffer {
  const places = new Map<Label, number>()
  const instructions: Exclude<Line, Label>[] = []
  for (const line of lines) {
    if (isLabel(line)) places.set(line, instructions.length)
    else instructions.push(line)
  }
  const program = Buffer.alloc(instructions.length * 8)
  for (const [at, [code, value, to]] of instructions.entries()) {
    const distance = (label: Label | undefined) => (label === undefined ? 0 : (places.get(label) ?? 0) - at - 1)
    program.writeUInt16LE(code, at * 8)
    program.writeUInt8(distance(to?.yes), at * 8 + 2)
    program.writeUInt8(distance(to?.no), at * 8 + 3)
    program.writeUInt32LE(value, at * 8 + 4)
  }
  return program
}
