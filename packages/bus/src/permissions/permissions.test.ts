import { describe, expect, it } from 'vitest'
import { Subjects } from '../subjects/subjects.js'
import { permissionTable } from './permission-table.js'
import { type Principal, permissionsFor, userOf, usersFor } from './permissions.js'

const context = { subjects: new Subjects(), agents: ['alice', 'audit'] }
const audit: Principal = { role: 'agent', name: 'audit', originates: true, subagent: true }

describe('permissions', () => {
  it('are exactly these subjects', () => {
    const { publish, subscribe, never, answers } = permissionsFor(audit, context)
    for (const subject of [
      'request.*.audit',
      'return.*.audit.*.audit',
      'fence.*.audit.*.audit',
      'event.*.audit.*.progress.audit',
      'event.audit.*.*.cancel.audit',
      'event.audit.*.*.applied.audit',
      'acknowledged.audit',
      'ask.audit',
      '$JS.API.DIRECT.GET.PASSOVER.work.audit.>',
      '$JS.API.DIRECT.GET.PASSOVER.work.*.audit.>',
      '$JS.API.CONSUMER.MSG.NEXT.PASSOVER.work_audit_high',
    ]) {
      expect(publish).toContain(subject)
    }
    expect([...subscribe].sort()).toEqual([
      '_INBOX_audit.>',
      'decided.audit',
      'fence.audit.*.*.*',
      'held.audit.*.*.*',
      'returned.*.*.*.audit.passover',
      'returned.audit.>',
    ])
    expect([never, answers]).toEqual([undefined, undefined])
  })

  it('give an agent that never originates no request, and one that is no subagent no consumer but that of its own returns', () => {
    const worker = permissionsFor({ ...audit, originates: false }, context)
    expect(worker.publish.filter((subject) => subject.startsWith('request.'))).toEqual([])
    expect(worker.publish.filter((subject) => subject.includes('returns_'))).toEqual([])
    expect(worker.subscribe).not.toContain('returned.audit.>')
    const caller = permissionsFor({ ...audit, subagent: false }, context)
    const consumers = caller.publish.filter((subject) => /CONSUMER|ACK/.test(subject))
    expect(consumers.filter((subject) => !/\.PASSOVER\.returns_audit(\.>)?$/.test(subject))).toEqual([])
    expect(caller.publish.filter((subject) => /^return\.|^fence/.test(subject))).toEqual([])
  })

  it('carry prefix and stream', () => {
    const spaced = permissionsFor(audit, { ...context, subjects: new Subjects('team.a') })
    expect(spaced.publish).toContain('team.a.request.*.audit')
    expect(spaced.publish).toContain('$JS.API.CONSUMER.MSG.NEXT.PASSOVER_team_a.work_audit_low')
    expect(spaced.publish).toContain('$JS.API.DIRECT.GET.*.$O.team_a_parts.*.M.*')
    const bare = (subject: string) => !subject.startsWith('team.a.') && !subject.startsWith('$') && !subject.startsWith('_INBOX_')
    expect([...spaced.publish, ...spaced.subscribe].filter(bare)).toEqual([])
  })

  it('let nobody purge or delete the stream, and only audit delete from it', () => {
    const everybody: Principal[] = [
      audit,
      { role: 'person', name: 'bob' },
      { role: 'auditor', name: 'ann' },
      { role: 'custodian', name: 'cora' },
      { role: 'dispatcher' },
      { role: 'audit' },
      { role: 'notifier' },
      { role: 'gateway' },
    ]
    for (const principal of everybody) {
      const { publish } = permissionsFor(principal, context)
      const may = (call: string) =>
        publish.some((subject) => subject.split('.').every((token, i) => token === '*' || token === `$JS.API.${call}`.split('.')[i]))
      expect([may('STREAM.PURGE.PASSOVER'), may('STREAM.DELETE.PASSOVER')]).toEqual([false, false])
      expect(may('STREAM.MSG.DELETE.PASSOVER')).toBe(principal.role === 'audit')
    }
  })

  it('let nobody who may make readers touch what the services and agents consume by', () => {
    const readers: Principal[] = [
      { role: 'person', name: 'bob' },
      { role: 'auditor', name: 'ann' },
      { role: 'custodian', name: 'cora' },
      { role: 'notifier' },
      { role: 'gateway' },
    ]
    for (const principal of readers) {
      const { never = [] } = permissionsFor(principal, context)
      for (const consumer of ['dispatcher', 'dispatcher_decisions', 'work_alice_high', 'returns_alice']) {
        for (const call of ['CREATE', 'DELETE', 'MSG.NEXT']) expect(never).toContain(`$JS.API.CONSUMER.${call}.PASSOVER.${consumer}`)
      }
    }
  })

  it('let a custodian alone say what is held or erased, and nobody but the audit what came of it', () => {
    const said = (principal: Principal) => permissionsFor(principal, context).publish.filter((subject) => subject.startsWith('custody.'))
    expect(said({ role: 'custodian', name: 'cora' })).toEqual(['custody.cora'])
    expect(said({ role: 'audit' })).toEqual(['custody.passover'])
    const others: Principal[] = [audit, { role: 'person', name: 'bob' }, { role: 'auditor', name: 'ann' }, { role: 'dispatcher' }]
    expect(others.flatMap(said)).toEqual([])
  })

  it('give each principal a user, and services names that no agent can have', () => {
    expect([audit, { role: 'dispatcher' } as const, { role: 'audit' } as const].map(userOf)).toEqual([
      'audit',
      'passover',
      'passover.audit',
    ])
    const users = usersFor([audit, { role: 'audit' }], context.subjects, (user) => `p-${user}`)
    expect(users.map(({ user, password }) => [user, password])).toEqual([
      ['audit', 'p-audit'],
      ['passover.audit', 'p-passover.audit'],
    ])
  })

  it('are a table for people', () => {
    const table = permissionTable()
    expect(table).toContain('| approve or deny | publish | `decision.*.*.*.*.PERSON` |')
    expect(table.match(/^## /gm)).toHaveLength(9)
  })
})
