import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Folder, run } from '../../support/fixtures/cli.js'

type Shell = 'bash' | 'zsh' | 'fish'

const folder = new Folder()
const bin = join(folder.path, 'bin')

/** Tells names and ids, as the command does where a server runs. */
const TELLS = `#!/bin/sh
while [ "$1" != completion ]; do shift; done
case "$2" in agents) printf 'audit\\nscout\\n' ;; ids) printf 'pass-one\\npass-two\\n' ;; esac
`

const LINES: [typed: string, offered: string[]][] = [
  ['passover show ', ['pass-one', 'pass-two']],
  ['passover policy ', ['push', 'rollback']],
  ['passover request --to ', ['audit', 'scout']],
  ['passover request --to audit --priority ', ['high', 'medium', 'low']],
  ['npx passover cancel ', ['pass-one', 'pass-two']],
  ['npx @passover/cli show ', ['pass-one', 'pass-two']],
]

/** Each prints what the shell offers for the line in `$2`, by the script in `$1`. */
const ASKS: Record<Shell, string> = {
  // Bash takes the @ for a word of its own.
  bash: `source "$1"; read -ra COMP_WORDS <<<"\${2//@/ @ } ."; COMP_WORDS[-1]=""; COMP_CWORD=$(( \${#COMP_WORDS[@]} - 1 ))
if [[ $2 == npx* ]]; then _passover_npx; else _passover; fi; printf '%s\\n' "\${COMPREPLY[@]}"`,
  fish: 'source $argv[1]; complete -C $argv[2]',
  // A shell at a terminal of its own: the second tab lists what there is. Its output is read until the last candidate has come.
  zsh: `zmodload zsh/zpty; zpty z zsh -f -i
zpty -w z "autoload -Uz compinit; compinit -u -d $3/dump; source $1; print REA''DY"; zpty -r z seen '*READY*'
zpty -w -n z "$2"$'\\t\\t'; for one in "\${@:4}"; do zpty -r z part "*$one*"; print -r -- "$part"; done; zpty -d z`,
}

function asked(shell: Shell, line: string, offered: string[]): string {
  // In the order in which the shell lists them.
  const wanted = [...offered].sort()
  const args: Record<Shell, string[]> = {
    bash: ['--norc', '-c', ASKS.bash, 'bash'],
    zsh: ['-f', '-c', ASKS.zsh, 'zsh'],
    fish: ['--no-config', '-c', ASKS.fish],
  }
  const script = join(folder.path, `passover.${shell}`)
  const { stdout, stderr } = spawnSync(shell, [...args[shell], script, line, folder.path, ...wanted], {
    cwd: folder.path,
    encoding: 'utf8',
    env: { ...process.env, PATH: `${bin}:${process.env.PATH}`, HOME: folder.path, TERM: 'xterm' },
    timeout: 30_000,
    killSignal: 'SIGKILL',
  })
  return stdout + stderr
}

function has(shell: Shell): boolean {
  if (spawnSync(shell, ['-c', 'true']).status === 0) return true
  process.stderr.write(`Left out: what ${shell} completes (no ${shell} here; Debian has it as a package).\n`)
  return false
}

beforeAll(async () => {
  mkdirSync(bin)
  for (const name of ['passover', 'npx']) {
    writeFileSync(join(bin, name), TELLS)
    chmodSync(join(bin, name), 0o755)
  }
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { stdout } = await run(['completion', shell], { cwd: folder.path })
    writeFileSync(join(folder.path, `passover.${shell}`), stdout)
  }
})

afterAll(() => folder[Symbol.dispose]())

describe.each(['bash', 'zsh', 'fish'] as const)('the completion script of %s', (shell) => {
  it.skipIf(!has(shell)).each(LINES)('offers after "%s" what may come', (line, offered) => {
    const text = asked(shell, line, offered)
    for (const one of offered) expect(text).toContain(one)
  })
})
