import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const I = 'test/integration/'

/**
 * What people reported of comparable systems (by the repository and number of their issue), and what attacks on prototypes of the protocol found: the
 * test that shows what must hold here, by its file and words of it.
 */
const SHOWN_BY: readonly [row: string, file: string, words: string][] = [
  ['opencode#18100: a pass to oneself', `${I}processes/chains`, 'alice to herself: E003'],
  ['openclaw#37842: A→B→C→A', `${I}processes/chains`, 'chains that are refused'],
  ['archestra#4462: a shortened or forged chain', `${I}processes/chains`, 'a forged parent or chain does not help'],
  [
    'claude-code#67524: kill -9 of a worker in mid-pass',
    `${I}processes/worker-killed`,
    'killed in mid-pass: one return within the lease bound',
  ],
  ['claude-code#67524: the last of them, in its last attempt', `${I}people/dead-letters`, 'whose only worker died in its last attempt'],
  [
    'openclaw#142445: the originator is offline',
    `${I}originator/durable-returns`,
    'is told once when it is back; asking again with the id',
  ],
  ['openclaw#4133: none open past its deadline', 'test/chaos/chaos-kills', 'unended(judgement)'],
  ['deer-flow#2553: an output after the timeout', `${I}processes/chains`, 'is stored as late, and never becomes a second return'],
  ['conductor#1321: a handler of five leases', `${I}processes/worker-killed`, 'a handler that runs for 5 leases is executed once'],
  [
    'mastra#24734: the same id beyond the dedupe window',
    `${I}originator/deleted-passes`,
    'is not run again when its old id is asked again',
  ],
  ['A2A#2119: cancelling the root', `${I}protocol/cascade`, 'A2A#2119'],
  ['claude-code#44534: a disabled pair', `${I}policy/policy-versions`, 'claude-code#44534'],
  ['nats-server#5564, murmur#34: a poisoned request', `${I}people/dead-letters`, 'nats-server#5564, murmur#34'],
  ['nats.node#649: a blocked event loop', `${I}processes/worker-killed`, 'its event loop blocked past the lease: fenced'],
  [
    'bullmq#3183: a worker that lost its lease',
    `${I}processes/worker-killed`,
    'it wakes after attempt 2 has returned: refused by the server',
  ],
  ['nats.node#590: consumers after a restart', `${I}originator/receive-returns-under-faults`, 'nats.node#590'],
  ['bullmq#2964: consumers after a restart', `${I}server/self-healing`, 'everybody is ready again by itself'],
  ['nats.deno#688: policy after a restart', `${I}policy/policy-versions`, 'nats.deno#688'],
  ['nats.py#896: 9 MB by reference, 20 MB refused', `${I}originator/context-sent`, 'nats.py#896'],
  ['nats.go#1001: a burst of 100,000', 'test/chaos/burst', 'test(`a burst of'],
  ['dbos-py#804: ids that are none, at the SDK', `${I}originator/round-trip`, 'refuses bad options before anything is stored'],
  ['dbos-py#804: at the dispatcher', 'services/dispatcher/src/messages/parse-request', "'bad-00000001', 'short', 'with space 1'"],
  ['dbos-ts#1205: result and timeout race', `${I}dispatcher/timekeeper-races`, 'const RACES = 10_000'],
  ['temporal#2266: a handler that ignores its signal', `${I}processes/worker-killed`, 'the pass ends, and the process still drains'],
  ['keda#6719: SIGTERM in mid-pass', `${I}processes/worker-killed`, 'SIGTERM in mid-pass: it finishes and then ends'],
  ['keda#6719: or hands back', `${I}processes/worker-killed`, 'handed back to another worker, and the process ends all the same'],
  ['nats.js#253, openobserve#13676: start/stop rounds', `${I}worker/worker`, 'nats.js#253'],
  ['bullmq#1658: timers at most 250 ms late', `${I}dispatcher/timekeeper`, 'MOSTLY_MS = 250'],
  ['AISVS#216: an approval of another digest', `${I}dispatcher/held-passes`, 'another digest, the own subagent'],
  ['gh-aw: partial review', `${I}apply/apply-and-undo`, 'applies exactly the two of three modifications'],
  ['gh-aw: a file changed since', `${I}apply/apply-and-undo`, 'the file is a conflict with its three sides'],
  ['two dispatchers, one refuses and one admits', `${I}dispatcher/replicas`, 'one admits and one refuses the same requests'],
  ['a stale attempt after the pass was deleted', `${I}processes/worker-killed`, 'refused by the server'],
  ['a timekeeper from an old snapshot after it', 'services/dispatcher/src/timekeeper/end-pass', "kind: 'gone'"],
  ['a second return, a fence after the return', `${I}processes/hostile-agents`, 'every reader keeps the first, and both are recorded'],
  ['a subagent that does not name its parent', `${I}dispatcher/admission`, 'E013 for an agent that may start only within a pass'],
  [
    'the parent returns before the child`s work step',
    `${I}protocol/rules-dispatcher`,
    'a work step stored after its parent`s return is ended',
  ],
  ['an event with somebody`s id as its dedupe id', `${I}dispatcher/hostile-agents`, 'with the id of a request as its dedupe id'],
  ['work that timed out in the queue', `${I}worker/early-ends`, 'a pass that is ended while its attempt is still being begun'],
  ['work whose consumer was recreated', `${I}protocol/rules-worker`, 'older than its consumer, made anew since, is fenced'],
  ['a child of an earlier attempt', `${I}dispatcher/timekeeper`, 'a fence ends the children of the earlier attempt'],
  ['attempt 1 stopped before its return', `${I}processes/worker-killed`, 'stopped with SIGSTOP before its return'],
  [
    'the connection drops while the return is stored',
    `${I}processes/originator-killed`,
    'its connection is cut while its return is stored',
  ],
  ['the same id with another objective', `${I}processes/originator-killed`, 'with another request: E005, and the first is untouched'],
  ['a body that names another originator', `${I}dispatcher/admission`, 'E005 to the originator of the subject, nothing to the named'],
  ['a worker decides about its own pass, permitted', `${I}permissions/permissions`, 'decision.'],
  ['a worker decides about its own pass, unpermitted', `${I}audit/projection`, 'a decision by an agent does not count and is a violation'],
  ['an approval that nobody gives', `${I}dispatcher/held-passes`, 'the expiry that nobody met ends it with E013'],
  ['twenty replicas of one originator', `${I}originator/receive-returns-under-faults`, 'each hears its own returns and no others'],
  ['the acknowledgment of a return is lost', `${I}processes/worker-killed`, "'after-return': { by: 'first', attempt: 1 }"],
  ['an old id after deletion', `${I}originator/deleted-passes`, 'its result comes from the audit'],
  ['the stream is nearly full', `${I}dispatcher/full-stream`, 'returns of running passes still fit'],
  ['a pass held beside very many', `${I}retention/stream-retention`, 'what is open, held, awaits release'],
  ['the leader is killed while returns are published', `${I}bus/cluster`, 'every node killed once, each journal has one return'],
  ['a forged Nats-Sequence', `${I}processes/hostile-agents`, 'forged headers of the server in its return'],
  ['the server itself is made to send', `${I}processes/hostile-agents`, 'a return of her own to Bob`s returned subject'],
  ['the same for a worker`s abort', `${I}processes/hostile-agents`, 'its worker is not aborted, nor does Bob believe it'],
]

it('each scenario is a test', () => {
  for (const [row, file, words] of SHOWN_BY) {
    const path = fileURLToPath(new URL(`../../../${file}.test.ts`, import.meta.url))
    expect(existsSync(path) && readFileSync(path, 'utf8').includes(words), `${row}: ${file} with “${words}”`).toBe(true)
  }
})
