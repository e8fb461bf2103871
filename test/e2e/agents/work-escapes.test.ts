import { type StdioPipe, spawn, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, closeSync, cpSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import type { WorkOutput } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { BIN, cleanEnvironment, Folder, findProcess, isRunning, pathWithout, Spawned, until } from '../../support/fixtures/cli.js'

/** Commands that try to break out of the sandbox of `passover work`, with real workers, as root and as an ordinary user. */

const NOBODY = 65_534
const isRoot = process.getuid?.() === 0
const sandboxed = (prefix: string[]) => {
  const [program = '', ...args] = [...prefix, 'bwrap', '--ro-bind', '/', '/', '--unshare-pid', '--unshare-net', 'true']
  return spawnSync(program, args).status === 0
}
const AS_NOBODY = ['/usr/bin/setpriv', '--reuid', `${NOBODY}`, '--regid', `${NOBODY}`, '--clear-groups']
const USERS = [
  { user: 'root', prefix: [] as string[], runs: isRoot },
  { user: 'nobody', prefix: isRoot ? AS_NOBODY : [], runs: true },
].filter(({ user, prefix, runs }) => {
  const works = runs && sandboxed(prefix)
  if (!works) process.stderr.write(`Skipped: escapes from the sandbox as ${user}, since bubblewrap does not run as that user here.\n`)
  return works
})

const document = {
  subagents: Object.fromEntries([
    ['unshared', { can_modify_files: true }],
    ...['root', 'nobody'].flatMap((user) => [
      [`writer-${user}`, { can_modify_files: true }],
      [`eater-${user}`, { max_memory_mb: 80 }],
    ]),
  ]),
}
const AGENTS = Object.keys(document.subagents).concat('held-root', 'held-nobody')
const SERVER_FILE = JSON.stringify({ url: 'nats://127.0.0.1:1', user: 'somebody', password: 'x' })
const RUNS_OBJECTIVE = 'eval "$PASSOVER_OBJECTIVE"'

let world: AgentWorld
beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document } }] })
})
afterAll(() => world?.[Symbol.asyncDispose]())

const server = () => [world.world.nats.servers].flat()[0] ?? ''

async function ask(subagent: string, objective: string, constraints: string[] = []) {
  const alice = await world.agent('alice')
  return alice.passOver({ subagent, reason: 'x', work_context: { objective }, constraints, timeout_ms: 100_000 }).then(
    (output: WorkOutput) => ({ output: output.output ?? '', error: undefined }),
    (error: { code: string; message: string; context?: Record<string, unknown> }) => ({ output: '', error }),
  )
}

/** A project of a user, in a folder that the user owns, with a repository. */
class Place implements Disposable {
  readonly #folder = new Folder()
  readonly parent = join(this.#folder.path, 'parent')
  readonly project = join(this.parent, 'project')
  readonly home = join(this.#folder.path, 'home')
  readonly #server = join(this.home, '.cache', 'passover', 'nats-server', '2.15.1', 'nats-server')
  /** The command as `npx` installs it, where the user can write it. */
  readonly #npx = join(this.home, '.npm', '_npx', '1a')
  readonly #program = join(this.#npx, 'node_modules', '@passover', 'cli')

  constructor(readonly prefix: string[]) {
    const auth = join(this.project, '.passover', 'auth')
    const hooks = join(this.project, '.git', 'hooks')
    for (const path of [
      this.#folder.path,
      this.parent,
      this.project,
      this.home,
      dirname(hooks),
      hooks,
      dirname(auth),
      auth,
      join(this.project, '.passover', 'nats'),
      join(auth, 'creds'),
    ]) {
      mkdirSync(path, { recursive: true })
      if (prefix.length > 0) chownSync(path, NOBODY, NOBODY)
      chmodSync(path, 0o755)
    }
    const files = {
      'project/kept.txt': 'as it was\n',
      'project/.passover/server.json': SERVER_FILE,
      'project/.passover/auth/keys.json': 'KEYS',
      'project/.passover/nats/1.blk': 'CONTEXTS',
      'project/.passover/passover.log': 'LOG',
      'project/.passover/passover.log.1': 'LOG',
      'project/.passover/evidence.key': 'KEY',
    }
    const credentials = Object.fromEntries(['bob', ...AGENTS].map((name) => [`project/.passover/auth/creds/${name}.creds`, `of ${name}`]))
    for (const [file, content] of Object.entries({ ...files, ...credentials })) {
      const path = join(this.parent, file)
      writeFileSync(path, content, { mode: 0o600 })
      if (prefix.length > 0) chownSync(path, NOBODY, NOBODY)
    }
    this.#install()
  }

  #install(): void {
    mkdirSync(dirname(this.#server), { recursive: true })
    writeFileSync(this.#server, 'installed')
    const source = dirname(dirname(BIN))
    for (const part of ['bin', 'bundle', 'package.json'])
      cpSync(join(source, part), join(this.#program, part), { recursive: true, filter: (file) => !file.endsWith('.map') })
    if (this.prefix.length > 0) spawnSync('chown', ['-R', `${NOBODY}:${NOBODY}`, this.home])
  }

  async work(name: string, env: NodeJS.ProcessEnv = {}): Promise<Spawned> {
    const line = [
      ...this.prefix,
      process.execPath,
      join(this.#program, 'bin', 'passover.js'),
      'work',
      name,
      '--concurrency',
      '4',
      '--server',
      server(),
    ]
    const [program = '', ...args] = [...line, '--', 'bash', '-c', RUNS_OBJECTIVE]
    const { project: PROJECT, parent: PARENT, home: HOME } = this
    // Descriptors that whoever started the worker left open, as `( flock 200; passover work … ) 200>lock` does.
    const left = [openSync(PROJECT, 'r'), openSync(join(PROJECT, 'kept.txt'), 'r+')]
    const stdio = Array.from({ length: 200 }, (_, at): StdioPipe | 'ignore' | number => (at < 3 ? 'pipe' : 'ignore'))
    stdio.push(...left)
    const child = spawn(program, args, { cwd: PROJECT, env: { ...cleanEnvironment(), PROJECT, PARENT, HOME, ...env }, stdio })
    for (const descriptor of left) closeSync(descriptor)
    const started = new Spawned(child)
    await started.printed('Sandbox for commands', 'stderr')
    return started
  }

  /** The files that an escape would have made or changed. */
  damage(): string[] {
    const settings = join(this.home, '.config', 'passover', 'config.json')
    const made = ['pwned', '.git/hooks/pwned', '.git/config', settings].filter((file) => existsSync(resolve(this.project, file)))
    if (readFileSync(this.#server, 'utf8') !== 'installed') made.push(this.#server)
    if (readFileSync(join(this.#program, 'bin', 'passover.js'), 'utf8') !== readFileSync(BIN, 'utf8')) made.push(this.#program)
    return readFileSync(join(this.project, 'kept.txt'), 'utf8') === 'as it was\n' ? made : [...made, 'kept.txt']
  }

  [Symbol.dispose](): void {
    this.#folder[Symbol.dispose]()
  }
}

/** Opens the project by its file handle, through a mount that is writable: the handle itself knows nothing of mounts. */
const BY_HANDLE = `perl -e 'my ($dir, $via) = @ARGV; my $h = pack("Ii", 128, 0) . ("\\0" x 128); my $m = pack("i", 0);
  syscall(303, -100, $dir, $h, $m, 0) == 0 or die; sysopen(my $d, $via, 0) or die; my $fd = syscall(304, fileno($d), $h, 0200000); die if $fd < 0;
  open(my $f, ">", "/proc/self/fd/$fd/pwned") or die; print $f "x"' "$PROJECT" "$HOME"`

/** Writes to what the product itself reads or runs outside of the sandbox. */
const OWN_WRITES: [how: string, script: string][] = [
  [
    'to the settings that allow automatic apply',
    `mv ~/.config ~/.other; mkdir -p ~/.config/passover; echo '{"auto_apply":true}' > ~/.config/passover/config.json`,
  ],
  [
    'to the nats-server that `passover up` starts',
    'cd ~/.cache/passover/nats-server/2.15.1; echo x > nats-server; mv nats-server real; echo x > nats-server; mv ~/.cache ~/.other; mkdir -p ~/.cache/passover/nats-server/2.15.1; echo x > ~/.cache/passover/nats-server/2.15.1/nats-server',
  ],
  [
    'to the program of passover itself',
    'cd ~/.npm/_npx/1a; p=node_modules/@passover/cli/bin; echo x > $p/passover.js; mv $p/passover.js ~; mv ~/.npm ~/.other; mkdir -p ~/.npm/_npx/1a/$p; echo x > ~/.npm/_npx/1a/$p/passover.js',
  ],
]

/** Puts programs into folders of PATH that did not exist when the worker started. They pass on what they do not understand. */
const PLANTS = `for b in ~/bin ~/node_modules/.bin; do mkdir -p $b; for t in bwrap sh env; do
  printf '#!/bin/bash\\ntouch "$PROJECT/pwned"; exec /usr/bin/%s "$@"\\n' $t > $b/$t; chmod +x $b/$t; done; done; echo planted`

const WRITES: [how: string, script: string][] = [
  ...OWN_WRITES,
  [
    'directly, to the directory and to .git',
    'echo x > pwned; echo x > kept.txt; echo x > .git/hooks/pwned; git config -f .git/config core.fsmonitor x',
  ],
  ['by mounting it again', 'mount -o remount,rw,bind "$PROJECT"; umount -l "$PROJECT"; mount -o remount,rw /; echo x > "$PROJECT/pwned"'],
  [
    'by mounting it again in a user namespace of its own',
    `unshare -Urm sh -c 'mount -o remount,rw,bind "$PROJECT"; umount -l "$PROJECT"; mount --bind "$HOME" /mnt; echo x > "$PROJECT/pwned"'`,
  ],
  [
    'through other processes in /proc',
    'for p in /proc/[0-9]*; do echo x > "$p/root$PROJECT/pwned"; echo x > "$p/cwd/pwned"; nsenter -t "$(basename "$p")" -m touch "$PROJECT/pwned"; done',
  ],
  [
    'by a directory that takes its place',
    'mv "$PARENT" "$PARENT.old" && mkdir -p "$PROJECT/.git/hooks" && echo x > "$PROJECT/pwned" && echo y > "$PROJECT/kept.txt"',
  ],
  ['through descriptors that the worker was started with', 'echo x >&201; echo x > /proc/self/fd/200/pwned; true'],
  ['by its file handle', `${BY_HANDLE}; unshare -Urm bash -c '${BY_HANDLE.replaceAll("'", `'\\''`)}'`],
]

/** What the descriptors of the shell above the standard ones are. */
const DESCRIPTORS = 'cd /proc/$$/fd; for n in *; do [ "$n" -gt 2 ] && readlink "$n"; done | sort -u'

/** Each prints what it achieved. */
const TAKES = `
for d in /dev/*; do [ -b "$d" ] && echo "sees device $d"; done
mknod "$HOME/disk" b 254 0 && echo "made a device"
for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe; do v=$(cat $f) && echo "$v" > $f && echo "wrote $f"; done
touch /etc/passover-escape && echo "wrote /etc"
for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do [ -e "$f" ] && echo $$ > "$f" && echo "entered $f"; done
kill -0 $NEIGHBOUR && echo "sees the neighbour"
perl -e 'print "traces it\\n" if syscall(101, 16, $ARGV[0], 0, 0) == 0' $NEIGHBOUR
true`

const CALLS = `perl -e 'use Socket; my ($path, $abstract, $port) = @ARGV;
  sub unix { socket(my $s, AF_UNIX, SOCK_STREAM, 0) or return; connect($s, pack("S a108", AF_UNIX, $_[0])) }
  print "UNIX socket\\n" if unix($path); print "abstract socket\\n" if unix("\\0$abstract");
  print "datagrams to any path\\n" if socketpair(my $a, my $b, AF_UNIX, SOCK_DGRAM, 0);
  print "vsock\\n" if socket(my $v, 40, SOCK_STREAM, 0);
  print "raw packets\\n" if socket(my $p, 17, SOCK_RAW, 0);
  print "io_uring\\n" if syscall(425, 1, my $ring = "\\0" x 256) >= 0;
  socket(my $t, AF_INET, SOCK_STREAM, 0); print "TCP\\n" if connect($t, pack_sockaddr_in($port, inet_aton("127.0.0.1")))' "$SOCKET" "$ABSTRACT" "$PORT"`

describe.each(USERS)('a command of $user', ({ user, prefix }) => {
  const [held, writer, eater] = [`held-${user}`, `writer-${user}`, `eater-${user}`]
  let place: Place
  const workers: Spawned[] = []
  const servers: Server[] = []
  let neighbour: { ended: Promise<unknown>; pid: number }

  beforeAll(async () => {
    place = new Place(prefix)
    const [SOCKET, ABSTRACT] = [join(place.home, 'service.sock'), `passover-${process.pid}-${user}`]
    for (const address of [SOCKET, `\0${ABSTRACT}`, 0]) {
      const listening = createServer((socket) => socket.destroy())
      servers.push(listening)
      await new Promise<void>((resolve) =>
        typeof address === 'number' ? listening.listen(address, '127.0.0.1', resolve) : listening.listen(address, resolve),
      )
    }
    chmodSync(SOCKET, 0o777)
    const address = servers[2]?.address()
    const PORT = typeof address === 'object' && address ? String(address.port) : ''
    workers.push(await place.work(writer))
    const ended = ask(writer, 'echo $$ > "$HOME/neighbour.pid"; while [ ! -e "$HOME/go" ]; do sleep 0.1; done')
    const file = join(place.home, 'neighbour.pid')
    await until('a command that may write runs beside', () => existsSync(file) && readFileSync(file, 'utf8').endsWith('\n'))
    neighbour = { ended, pid: findProcess(Number(readFileSync(file, 'utf8')), `HOME=${place.home}`) ?? 0 }
    const PATH = `${join(place.home, 'node_modules', '.bin')}:${join(place.home, 'bin')}:${process.env.PATH}`
    for (const name of [held, eater])
      workers.push(await place.work(name, { NEIGHBOUR: String(neighbour.pid), SOCKET, ABSTRACT, PORT, PATH }))
  })
  afterAll(async () => {
    writeFileSync(join(place.home, 'go'), '')
    await neighbour?.ended
    for (const worker of workers) await worker[Symbol.asyncDispose]()
    for (const one of servers) one.close()
    rmSync('/etc/passover-escape', { force: true })
    place[Symbol.dispose]()
  })

  it.each(WRITES)('cannot write to a read-only project: %s', async (_, script) => {
    const { error } = await ask(held, `${script}; true`)
    expect(error).toBeUndefined()
    expect(place.damage()).toEqual([])
  })

  it('has none of the descriptors that the worker was started with', async () => {
    expect(await ask(held, DESCRIPTORS)).toEqual({ output: '/dev/null\n', error: undefined })
    expect(await ask(writer, DESCRIPTORS, ['no_external_calls'])).toMatchObject({ output: '/dev/null\n' })
  })

  it('cannot have the next command confined by a program that it put into a folder of PATH', async () => {
    expect((await ask(held, PLANTS)).output).toBe('planted\n')
    expect(await ask(held, 'echo confined')).toEqual({ output: 'confined\n', error: undefined })
    expect(place.damage()).toEqual([])
  })

  it.each(OWN_WRITES)('that may change everything else cannot write %s', async (_, script) => {
    const { error } = await ask(writer, `touch "$HOME/wrote"; ${script}; true`)
    expect(error).toBeUndefined()
    expect(existsSync(join(place.home, 'wrote'))).toBe(true)
    expect(place.damage()).toEqual([])
  })

  it('sees neither the messages and logs of its installation nor its evidence key, whatever its pass may do', async () => {
    const reads = 'cd .passover; cat nats/* passover.log* evidence.key 2>/dev/null; ls nats; cat server.json'
    for (const agent of [held, writer]) expect(await ask(agent, reads)).toEqual({ output: SERVER_FILE, error: undefined })
    // Under another name it would be hidden from nobody's next pass.
    for (const agent of [held, writer]) {
      await ask(agent, 'mv .passover moved; touch .passover/made .passover/nats/made; true')
      expect(await ask(agent, 'cat moved/nats/* moved/auth/keys.json .passover/made .passover/nats/made 2>/dev/null; true')).toMatchObject({
        output: '',
      })
    }
  })

  it('reads the credentials of its own agent and no other key of the installation, whatever its pass may do', async () => {
    const reads = 'cat .passover/auth/keys.json .passover/auth/creds/* 2>/dev/null; true'
    expect(await ask(held, reads)).toEqual({ output: `of ${held}`, error: undefined })
    expect(await ask(writer, reads)).toEqual({ output: `of ${writer}`, error: undefined })
    expect((await ask(held, 'echo x > .passover/server.json; cat .passover/server.json')).output).toBe(SERVER_FILE)
  })

  it('reaches no device, no setting of the kernel and no other process', async () => {
    expect(await ask(held, TAKES)).toEqual({ output: '', error: undefined })
  })

  it('reaches no socket under no_external_calls, and can still use pipes and its own loopback', async () => {
    expect((await ask(held, CALLS)).output).toContain('UNIX socket\nabstract socket\n')
    expect(await ask(held, CALLS, ['no_external_calls'])).toEqual({ output: '', error: undefined })
    expect(await ask(writer, CALLS.replaceAll('"$SOCKET"', '"$HOME/service.sock"'), ['no_external_calls'])).toMatchObject({ output: '' })
    const own = `const n = require('net'), s = n.createServer((c) => c.end('loopback')).listen(0, '127.0.0.1', () =>
      n.connect(s.address().port, '127.0.0.1').on('data', (d) => { console.log(String(d), require('child_process').execSync('echo pipes').toString()); s.close() }))`
    expect((await ask(held, `"${process.execPath}" -e "${own}"`, ['no_external_calls'])).output).toBe('loopback pipes\n\n')
  })

  it('is charged for files in memory and for processes that left its group', async () => {
    const files = await ask(eater, 'head -c 200M /dev/zero > /dev/shm/big; sleep 60; echo survived')
    expect(files.error).toMatchObject({ code: 'E014', context: { field: 'max_memory_mb', limit_mb: 80 } })
    const orphan = `setsid setsid perl -e '$x = "x" x (200 << 20); sleep 60' & sleep 60; echo survived`
    expect((await ask(eater, orphan)).error).toMatchObject({ code: 'E014' })
  })

  it.each([writer, held])('takes its daemons along when it ends, and returns although they keep its output open (%s)', async (agent) => {
    const { output } = await ask(agent, 'setsid setsid sleep 4321 & sleep 0.2; echo "$(pgrep -n -x sleep || echo 0)"; touch "$HOME/ran"')
    expect(output).toMatch(/^[1-9]\d*\n$/)
    await until('the daemon has ended', () => !isRunning(Number(output), `HOME=${place.home}`))
  })
})

describe.skipIf(USERS.length === 0)('with unshare alone', () => {
  it('the settings, the nats-server and the program of the product are read-only, whatever the pass may do', async () => {
    using place = new Place(isRoot ? AS_NOBODY : [])
    await using worker = await place.work('unshared', { PATH: pathWithout(['bwrap'], place.home) })
    expect(worker.stderr).toContain('Sandbox for commands: unshare')
    const script = OWN_WRITES.map(([, one]) => `(${one.replace(/mv ~\/\.\w+ ~\/\.other/, 'true')})`).join('; ')
    expect((await ask('unshared', `touch "$HOME/wrote"; ${script}; true`)).error).toBeUndefined()
    expect(existsSync(join(place.home, 'wrote'))).toBe(true)
    expect(place.damage()).toEqual([])
  })
})

describe('without namespaces', () => {
  it('a change to .git is noticed, and a daemon that keeps the output open does not hold up the result', async () => {
    using place = new Place(isRoot ? AS_NOBODY : [])
    const PATH = pathWithout(['bwrap', 'unshare', 'setpriv'], place.home)
    await using worker = await place.work('bare', { PATH })
    expect(worker.stderr).toMatch(/process_cleanup +best effort/)
    expect((await ask('bare', DESCRIPTORS)).output).toBe('/dev/null\n')
    const { error } = await ask('bare', 'echo x > .git/hooks/pwned; mkdir -p .git/objects/ab; echo x > .git/objects/ab/cd')
    expect(error).toMatchObject({ code: 'E013', context: { files: expect.arrayContaining(['.git/hooks/pwned', '.git/objects']) } })
    const began = performance.now()
    expect((await ask('bare', 'setsid sleep 60 & sleep 0.2; echo started')).output).toBe('started\n')
    expect(performance.now() - began).toBeLessThan(50_000)
  })
})
