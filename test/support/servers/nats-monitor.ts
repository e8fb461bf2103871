/** What clients have opened on the servers, by name, so that what is left behind can be named. */
export class Census {
  constructor(
    /** `name (user)` of each client connection. */
    readonly connections: string[],
    /** Subjects subscribed to, one entry a subscription. */
    readonly subscriptions: string[],
    /** `<stream> > <consumer>`. */
    readonly consumers: string[],
  ) {}

  /** What is here and was not in the other, each with its kind. */
  notIn(before: Census): string[] {
    return [
      ...surplus(this.connections, before.connections).map((name) => `connection ${name}`),
      ...surplus(this.subscriptions, before.subscriptions).map((subject) => `subscription ${subject}`),
      ...surplus(this.consumers, before.consumers).map((name) => `consumer ${name}`),
    ]
  }
}

/** Elements of `now` beyond those in `before`, counted. */
function surplus(now: string[], before: string[]): string[] {
  const known = new Map<string, number>()
  for (const one of before) known.set(one, (known.get(one) ?? 0) + 1)
  return now.filter((one) => {
    const count = known.get(one) ?? 0
    known.set(one, count - 1)
    return count <= 0
  })
}

interface Connz {
  connections?: { cid: number; name?: string; authorized_user?: string; subscriptions_list?: string[] }[]
}

interface Jsz {
  account_details?: { stream_detail?: { name: string; consumer_detail?: { name: string }[] }[] }[]
}

export async function takeCensus(monitors: string[]): Promise<Census> {
  const connections: string[] = []
  const subscriptions: string[] = []
  const consumers = new Set<string>()
  for (const monitor of monitors) {
    const { connections: open = [] } = await ask<Connz>(monitor, '/connz?subs=1&auth=1&limit=10000')
    for (const one of open) {
      connections.push(`${one.name ?? 'unnamed'} (${one.authorized_user ?? 'nobody'})`)
      subscriptions.push(...(one.subscriptions_list ?? []))
    }
    const { account_details = [] } = await ask<Jsz>(monitor, '/jsz?accounts=1&streams=1&consumers=1&limit=10000')
    for (const stream of account_details.flatMap((account) => account.stream_detail ?? [])) {
      for (const consumer of stream.consumer_detail ?? []) consumers.add(`${stream.name} > ${consumer.name}`)
    }
  }
  return new Census(connections, subscriptions, [...consumers])
}

async function ask<T>(monitor: string, path: string): Promise<T> {
  const answer = await fetch(new URL(path, monitor), { signal: AbortSignal.timeout(20_000) })
  if (!answer.ok) throw new Error(`${path} answers ${answer.status}`)
  return (await answer.json()) as T
}
