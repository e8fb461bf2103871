import type { FaultName } from '../options.js'
import { corruptBlock } from './corrupt-block.js'
import type { Fault } from './fault.js'
import { fillSegment } from './fill-segment.js'
import { partition, slow } from './link.js'
import { freeze, kill } from './process.js'
import { diskFull, leaderKill, outage, serverFreeze, serverKill, serverRestart } from './server.js'

export const FAULT_HANDLERS: Record<FaultName, Fault> = {
  kill,
  freeze,
  'server-kill': serverKill,
  'server-freeze': serverFreeze,
  'server-restart': serverRestart,
  'leader-kill': leaderKill,
  outage,
  partition,
  slow,
  'disk-full': diskFull,
  flip: corruptBlock,
  seal: fillSegment,
}
