import { decode, partToken, type Stored } from '@passover/bus'
import { HEADER, part } from '@passover/schemas'

/** A part that lies apart says whose bucket it is in; nothing else that is stored has a member of that name as a rule. */
const OWNER = Buffer.from('owner')

/** The large parts that a message refers to, as `<owner>/<token>`. Looked for before anything is decoded: hardly any message has some. */
export function partsNamed({ data, headers }: Pick<Stored, 'data' | 'headers'>): string[] {
  if (data.length === 0 || !Buffer.from(data.buffer, data.byteOffset, data.byteLength).includes(OWNER)) return []
  const decoded = decode(data, headers.get(HEADER.contentType))
  const found = decoded.ok ? (decoded.value as { parts?: unknown } | null)?.parts : undefined
  if (!Array.isArray(found)) return []
  return found.flatMap((one: unknown) => {
    const parsed = part.safeParse(one)
    return parsed.success && parsed.data.owner !== undefined && !parsed.data.data
      ? [partName(parsed.data.owner, partToken(parsed.data.hash))]
      : []
  })
}

export function partName(owner: string, token: string): string {
  return `${owner}/${token}`
}
