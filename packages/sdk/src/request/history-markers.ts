import type { PassOverReturnMarker, WorkOutput } from '@passover/schemas'

/**
 * Makes the entry for the history of the session where the work came back. Its counterpart is the `marker` of the handle.
 *
 * @param output - What the pass returned.
 * @returns The entry.
 */
export function returnMarker(output: WorkOutput): PassOverReturnMarker {
  const { returned_at } = output.metadata
  return {
    type: 'pass_over_return',
    id: `pass_over_return_${output.work_id}`,
    work_output: output,
    return_to: output.return_to,
    pass_over_id: output.work_id,
    ...(returned_at !== undefined && { timestamp: returned_at }),
  }
}
