import type { Delivery } from '@passover/bus'
import { describe, expect, it } from 'vitest'
import { LeaseRenewer } from './lease-renewer.js'

function delivery() {
  const made = {
    renewals: 0,
    working() {
      made.renewals += 1
    },
  }
  return made as typeof made & Delivery
}

describe('Leases', () => {
  it('renews all every third of the lease, and no sooner', () => {
    const leases = new LeaseRenewer(3_000, 0)
    const [a, b] = [delivery(), delivery()]
    leases.hold(a)
    leases.hold(b)
    expect(leases.sweep(900)).toEqual({ lapsed: false })
    expect(a.renewals).toBe(0)
    leases.sweep(1_000)
    leases.release(b)
    leases.sweep(1_900)
    leases.sweep(2_000)
    expect([a.renewals, b.renewals]).toEqual([2, 1])
  })

  it('says that leases may be lost when it came too late', () => {
    const leases = new LeaseRenewer(3_000, 0)
    expect(leases.sweep(10_000)).toEqual({ lapsed: false })
    const one = delivery()
    leases.hold(one)
    expect(leases.sweep(12_900)).toEqual({ lapsed: false })
    expect(leases.sweep(15_900)).toEqual({ lapsed: true })
    // What may be another attempt's by now is renewed only after a look.
    expect(one.renewals).toBe(1)
    // Nor while no look succeeds, as with a connection that was lost meanwhile.
    const later = delivery()
    leases.hold(later)
    expect(leases.sweep(17_000)).toEqual({ lapsed: true })
    expect([one.renewals, leases.isUnsure(one), later.renewals, leases.isUnsure(later)]).toEqual([1, true, 1, false])
    leases.renew(one)
    expect(leases.sweep(18_000)).toEqual({ lapsed: false })
    // What has not begun is renewed again after that.
    leases.sweep(22_000)
    leases.doubtOnly(new Set([one]))
    leases.sweep(23_000)
    expect([one.renewals, later.renewals]).toEqual([3, 3])
    leases.release(one)
    leases.renew(one)
    expect(one.renewals).toBe(3)
  })

  it('goes by the shortest lease', () => {
    const leases = new LeaseRenewer(5_000, 0)
    const one = delivery()
    leases.hold(one)
    leases.shorten(600)
    leases.shorten(900)
    leases.sweep(200)
    expect(one.renewals).toBe(1)
  })
})
