import type { Deps } from './deps.js'
import type { IdWindow } from './id-window.js'
import type { AskedTraces } from './request-trace.js'
import type { ReturnNotices } from './return-notices.js'
import type { Returns } from './returns.js'

/** What passing over needs of its agent. */
export interface Origin {
  deps: Deps
  name: string
  instance: string
  returns: Returns
  traces: AskedTraces
  /** Who is told of returns: then they are waited for, whether a caller does or not. */
  notices?: Pick<ReturnNotices, 'listening'> | undefined
  /** Undefined: the caller named none. */
  session_id: string | undefined
  directory: string
  window: IdWindow
}
