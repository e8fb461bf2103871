import { openPolicySession, type PolicySession as Session } from '@passover/operator'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'

/** A policy session with its connection. */
export type PolicySession = Session & AsyncDisposable

export async function openPolicy(context: Context): Promise<PolicySession> {
  const bus = await connectPerson(context)
  try {
    return { ...(await openPolicySession(bus)), [Symbol.asyncDispose]: () => bus[Symbol.asyncDispose]() }
  } catch (error) {
    await bus[Symbol.asyncDispose]()
    throw error
  }
}
