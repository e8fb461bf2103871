/** One event of a stream of server-sent events. */
export interface Block {
  event: string
  data: string
  id?: string
}

/** Parses a stream of server-sent events. An incomplete event at the end is dropped. */
export async function* blocks(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Block> {
  if (!body) return
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
    rest += decoder.decode(chunk, { stream: true })
    const whole = rest.split(/\r?\n\r?\n/)
    rest = whole.pop() ?? ''
    for (const text of whole) {
      const block = parse(text)
      if (block) yield block
    }
  }
}

function parse(text: string): Block | undefined {
  const block: Block = { event: 'message', data: '' }
  const data: string[] = []
  for (const line of text.split(/\r?\n/)) {
    const [, field, value = ''] = /^([a-z]+)(?:: ?(.*))?$/.exec(line) ?? []
    if (field === 'data') data.push(value)
    if (field === 'event') block.event = value
    if (field === 'id') block.id = value
  }
  return data.length === 0 ? undefined : { ...block, data: data.join('\n') }
}
