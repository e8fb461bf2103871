import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const read = (path: string) => readFileSync(fileURLToPath(new URL(`../../../${path}`, import.meta.url)), 'utf8')
const SERVERS = 'test/e2e/operations/doctor.test.ts'
const RULES = 'packages/cli/src/doctor/doctor.test.ts'

/** Each risk of docs/operations/production-settings.md, by its first words, and the test that shows that doctor names it; or that it says that nobody can see it. */
const LOOKED_AT: Record<string, [file: string, words: string] | 'nobody can see it'> = {
  '`sync_interval` (2 minutes by default)': [SERVERS, "'one replica, synced now and then'"],
  '`sync_interval: 2m` without quotes': [SERVERS, "'an unquoted sync_interval'"],
  replicas: [SERVERS, "'one replica in a cluster; a replica that is offline'"],
  'three replicas and `sync_interval` above `always`': [RULES, "'says what three replicas that sync now and then lose"],
  '`max_age` on the stream or the `passes`, `policy`, `agents`, `archive` buckets': [
    SERVERS,
    "'a bucket that forgets, and limits of messages'",
  ],
  '`discard: old`': [SERVERS, "'a full stream that drops'"],
  'no `max_bytes` on the stream': [SERVERS, "'a stream without a limit'"],
  '`max_bytes` below what comes in two id windows': 'nobody can see it',
  "`max_bytes` above `max_file_store` or the account's storage": [RULES, "'has room to grow'"],
  '`max_msgs`, `max_msgs_per_subject`': [SERVERS, "'a bucket that forgets, and limits of messages'"],
  '`storage: memory`': [SERVERS, "'a stream in memory'"],
  '`store_dir` on NFS, SMB, FUSE, 9p': [RULES, "'keeps its files on a local disk'"],
  'a file system without checksums': [RULES, "'has all of the stream where it is monitored'"],
  'disk full': [RULES, "'has a disk with room, and more of it than it may use'"],
  'JetStream domains, leaf nodes': [SERVERS, "'a domain'"],
  'accounts: `max_streams`, `max_consumers`, `max_ack_pending`, bytes of one stream': [
    SERVERS,
    "'limits of the account, and no limit that is not there'",
  ],
  'clocks of the servers': [RULES, "'is of one domain and one time'"],
  '`max_payload` below 1 MB': [RULES, "'is new enough, has JetStream on, takes a mebibyte, and tells the same time'"],
  permissions: [RULES, 'checkCredentials(undefined, NOW)'],
  backups: 'nobody can see it',
}

it('each risk of docs/operations/production-settings.md is looked at by doctor, and that is tested', () => {
  const page = read('docs/operations/production-settings.md')
  const [table = ''] = page.slice(page.indexOf('| setting |')).split('\n\n')
  const risks = table
    .split('\n')
    .slice(2)
    .map((row) => row.split(' | ')[0]?.replace('| ', '') ?? '')
  expect(risks).toEqual(Object.keys(LOOKED_AT))
  const unseen = page.split('\n').find((row) => row.endsWith('| nobody: ask the operators |'))
  for (const [risk, where] of Object.entries(LOOKED_AT)) {
    if (where === 'nobody can see it') expect(unseen).toContain(risk)
    else expect(read(where[0]), `${risk}: ${where[0]}`).toContain(where[1])
  }
})
