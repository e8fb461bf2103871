import type { PassOverReturnMarker, WorkOutput } from '@passover/schemas'

/** Stands in the session's history where the work came back; its counterpart is the handle's `marker`. */
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
