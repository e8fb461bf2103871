import type { PassOverReturnMarker, WorkOutput } from '@passover/schemas'

/**
 * Creates a history entry for the return of a pass. The history entry for the request is `PassHandle.marker`.
 *
 * @param output - The output of the pass.
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
