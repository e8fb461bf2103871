import { spawnSync } from 'node:child_process'

let answer: { missing: string | undefined } | undefined

/** Why containers cannot be had, in words for a skipped test; undefined when a Docker engine answers. Asked once a process. */
export function dockerMissing(): string | undefined {
  answer ??= { missing: ask() }
  return answer.missing
}

function ask(): string | undefined {
  const { status, error } = spawnSync('docker', ['info', '--format', '{{.ServerVersion}}'], { stdio: 'ignore', timeout: 10_000 })
  if (error) return 'there is no docker command'
  return status === 0 ? undefined : 'no Docker engine answers `docker info`; infra/ci/docker.sh starts one'
}
