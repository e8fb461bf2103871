import { processMetrics, serveHealth } from '@passover/bus'
import { dispatcherMetrics } from '@passover/dispatcher'
import { expect, test } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'

test('a process tells its numbers beside its health, by state and code, and a pass that goes on after its end counts once', async () => {
  await using made = await AgentWorld.start()
  const [alice, audit] = [await made.agent('alice'), await made.agent('audit')]
  await audit.onPass(() => 'done', { log: () => undefined })
  const ask = (subagent: string) => alice.passOver({ subagent, reason: 'r', work_context: { objective: 'o' } }).result()
  const first = await ask('audit')
  await ask('audit')
  await expect(ask('nobody')).rejects.toMatchObject({ code: 'E001' })
  const [running] = made.audits
  const [dispatcher] = made.world.dispatchers
  if (!running || !dispatcher) throw new Error('not there')
  await running.settled()
  const { bus } = made.world
  const key = { originator: 'alice', subagent: 'audit', id: first.work_id }
  await bus.publish({ subject: bus.subjects.event(key, 'cancel', 'alice'), data: new Uint8Array([0x80]) })
  await running.settled()

  const metrics = () => [dispatcherMetrics(dispatcher.stats()), ...running.metrics(), processMetrics()]
  await using endpoint = await serveHealth(() => running.health(), 0, metrics)
  const answer = await fetch(`${endpoint.url}/metrics`)
  expect(answer.headers.get('content-type')).toContain('text/plain; version=0.0.4')
  const lines = (await answer.text()).split('\n')
  for (const line of [
    'passover_passes_ended_total{status="returned",how="completed"} 2',
    'passover_passes_ended_total{status="refused",how="E001"} 1',
    'passover_pass_duration_seconds_count 3',
    'passover_dispatcher_requests_total{outcome="admitted"} 2',
    'passover_dispatcher_requests_total{outcome="refused"} 1',
    'passover_audit_open 0',
  ])
    expect(lines).toContain(line)
  expect(lines.some((line) => /^process_resident_memory_bytes \d+$/.test(line))).toBe(true)
  expect((await fetch(`${endpoint.url}/metrics`, { method: 'HEAD' })).status).toBe(200)
  expect((await fetch(`${endpoint.url}/metrics`, { method: 'POST' })).status).toBe(404)
})
