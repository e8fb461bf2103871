import type { CustodyBody, CustodyScope, SegmentRun } from '@passover/schemas'
import { dateTime } from '../terminal/duration.js'
import { count, oneLine } from '../terminal/text.js'

/** Describes a custody event in words. */
export function custodyText(body: CustodyBody): string {
  switch (body.kind) {
    case 'hold':
      return `holds ${scopeText(body.scope)}: ${oneLine(body.reason)}`
    case 'release':
      return `releases hold ${body.hold}${body.reason === undefined ? '' : `: ${oneLine(body.reason)}`}`
    case 'erase':
      return `requests the erasure of session ${oneLine(body.session)}${body.originator === undefined ? '' : ` of ${oneLine(body.originator)}`}: ${oneLine(body.reason)}`
    case 'erased':
      return `erases ${count(body.passes.length, 'pass', 'passes')} (erasure ${body.erase})`
    case 'refused':
      return `refuses erasure ${body.erase}: ${oneLine(body.why)}`
    case 'done':
      return `erasure ${body.erase} is done: ${count(body.passes, 'pass', 'passes')}, ${count(body.entries, 'entry', 'entries')}, ${count(body.parts, 'large part')}`
    case 'removals':
      return `records each removal from now on${body.untold.length === 0 ? '' : `; removed earlier: ${body.untold.map(segmentsText).join(', ')}`}`
    case 'removed': {
      const entries = body.segments.reduce((sum, run) => sum + run.entries, 0)
      const newest = Math.max(...body.segments.map(({ last_time }) => last_time))
      const by = body.policy === 0 ? 'the default retention is' : `retention in policy version ${body.policy} is`
      return `removes ${body.segments.map(segmentsText).join(', ')} from the archive (${count(entries, 'entry', 'entries')} up to ${dateTime(newest)}): ${by} ${count(body.retention_days, 'day')}`
    }
  }
}

function segmentsText({ from, to }: SegmentRun): string {
  return from === to ? `segment ${from}` : `segments ${from} to ${to}`
}

export function scopeText(scope: CustodyScope): string {
  return 'session' in scope
    ? `session ${oneLine(scope.session)}`
    : `pass ${oneLine(scope.pass.id)} (${oneLine(scope.pass.originator)} → ${oneLine(scope.pass.subagent)})`
}
