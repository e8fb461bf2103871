import { policyOn, type PolicySession as Session } from '@passover/sdk/people'
import { connectPerson } from '../client.js'
import type { Context } from '../context.js'

/** A connection with what every policy command needs. */
export type PolicySession = Session & AsyncDisposable

export async function openPolicy(context: Context): Promise<PolicySession> {
  const bus = await connectPerson(context)
  try {
    return { ...(await policyOn(bus)), [Symbol.asyncDispose]: () => bus[Symbol.asyncDispose]() }
  } catch (error) {
    await bus[Symbol.asyncDispose]()
    throw error
  }
}
