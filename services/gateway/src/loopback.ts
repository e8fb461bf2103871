const LOOPBACK = /^(127(?:\.\d{1,3}){3}|localhost|\[?::1\]?)$/i

/** Whether a host name or address is this machine's own, which no other machine reaches. */
export function isLoopbackName(host: string): boolean {
  return LOOPBACK.test(host)
}
