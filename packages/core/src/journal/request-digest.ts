import { canonicalJson, type Part, type RequestControl, sha256 } from '@passover/schemas'

/**
 * Returns the digest of a request in 64 hex digits. The same id with another digest is another request (docs/architecture/protocol.md#idempotency).
 * Parts are compared by name and hash, in any order. An omitted field has the same digest as its default.
 */
export function requestDigest(request: RequestControl, parts: readonly Pick<Part, 'name' | 'hash'>[]): string {
  const { override, expected_output_type, timeout_ms } = request
  // Built by hand, with keys in RFC 8785 order: it runs once per request, and the generic `canonicalJson` takes 20 µs.
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

/** JSON.stringify escapes a lone surrogate, which RFC 8785 does not allow; `canonicalJson` handles that case. */
function quoted(text: string): string {
  const json = JSON.stringify(text)
  return json.includes('\\ud') ? canonicalJson(text) : json
}

function byName(a: { name: string; hash: string }, b: { name: string; hash: string }): number {
  if (a.name !== b.name) return a.name < b.name ? -1 : 1
  return a.hash < b.hash ? -1 : Number(a.hash > b.hash)
}
