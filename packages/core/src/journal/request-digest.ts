import { canonicalJson, type Part, type RequestControl, sha256 } from '@passover/schemas'

/**
 * What a request asks for, in 64 hex digits: the same id with another digest is another request (docs/architecture/protocol.md#idempotency).
 * Parts count by name and hash, in whatever order; a default that is left out counts as written out.
 */
export function requestDigest(request: RequestControl, parts: readonly Pick<Part, 'name' | 'hash'>[]): string {
  const { override, expected_output_type, timeout_ms } = request
  // Written out, in the order of keys that RFC 8785 asks for: this is on the way of every request, and a general form takes 20 µs.
  const asked =
    `{"auto_apply_on_success":${request.auto_apply_on_success ?? false},"constraints":${listed((request.constraints ?? []).map(quoted))}` +
    (expected_output_type === undefined ? '' : `,"expected_output_type":${quoted(expected_output_type)}`) +
    `,"originator":${quoted(request.originating_agent_id)}` +
    (override === undefined ? '' : `,"override":${canonicalJson(override)}`) +
    `,"parts":${listed([...parts].sort(byName).map(({ name, hash }) => `{"hash":${quoted(hash)},"name":${quoted(name)}}`))}` +
    `,"priority":${quoted(request.priority ?? 'medium')},"reason":${quoted(request.reason)}` +
    `,"return_required":${request.return_required ?? true},"subagent":${quoted(request.subagent_id)}` +
    (timeout_ms === undefined ? '}' : `,"timeout_ms":${canonicalJson(timeout_ms)}}`)
  return sha256(asked)
}

function listed(items: readonly string[]): string {
  return `[${items.join(',')}]`
}

/** JSON writes a lone surrogate as an escape, RFC 8785 knows none. */
function quoted(text: string): string {
  const json = JSON.stringify(text)
  return json.includes('\\ud') ? canonicalJson(text) : json
}

function byName(a: { name: string; hash: string }, b: { name: string; hash: string }): number {
  if (a.name !== b.name) return a.name < b.name ? -1 : 1
  return a.hash < b.hash ? -1 : Number(a.hash > b.hash)
}
