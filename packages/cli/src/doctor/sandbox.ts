import { type Guarantee, levelText } from '../sandbox/guarantees.js'
import type { Mechanism } from '../sandbox/mechanism.js'
import { type Check, look, ok } from './check.js'

/** How far `passover work` enforces each constraint on this machine. */
export function checkSandbox({ mechanism, guarantees }: { mechanism: Mechanism; guarantees: readonly Guarantee[] }): Check[] {
  return guarantees.map(({ constraint, level, mechanism: by }) => {
    const text = `${constraint}: ${levelText(level)} (${by})`
    return level === 'enforced' ? ok('sandbox', text) : look('sandbox', text, remedy(constraint, mechanism))
  })
}

function remedy(constraint: Guarantee['constraint'], mechanism: Mechanism): string {
  if (mechanism.kind !== 'bubblewrap') return `install bubblewrap (bwrap) and allow user namespaces: ${mechanism.why}`
  if (constraint === 'max_memory_mb') return 'run the worker where it can create memory cgroups: systemd-run --user --scope -p Delegate=yes'
  return mechanism.network ? 'run the worker on x64 or arm64, for which there is a socket filter' : 'allow network namespaces'
}
