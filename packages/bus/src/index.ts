/**
 * How things travel: the one importer of the NATS client. It knows no rules.
 *
 * I1  An outcome other than `stored` proves nothing but that one did not win; `lost` and `unknown` are values, never exceptions.
 * I2  Times are the server's, whole milliseconds; whatever clock the machine shows.
 * I3  Of a repeated header the server's is the last one; what is heard counts only by it.
 * I4  A reader hands on every stored message once and in order, across reconnects, restarts and lost consumers.
 * I5  Hostile bytes and headers become values (CodecError, `unknown`, a missing field); none is thrown at a caller.
 * I6  What is disposed leaves no subscription, timer or consumer behind.
 * I7  Nothing that someone else configured is changed.
 */

export { type AgentKept, AgentRecords, type AgentStanding } from './agent-records.js'
export { isAlive } from './alive.js'
export { API_ERROR, type ApiReply } from './api.js'
export { type AccessFor, authFolderOf, authorityPath, credentialsPath, type ProjectAccess, projectAccess } from './auth/project-access.js'
export { type AgentCheck, type AgentCheckOptions, checkAgent, isRestricted, type ProbeResult } from './auth-check/check-agent.js'
export type { AskOptions, Bus, EnsureAgent, Service, TopologyOptions } from './bus.js'
export type { Consumption, Delivery, PullEnd, PullOptions, Verdict, WorkSource } from './bus-deliveries.js'
export type { Following, FollowOptions, HearAlso, Heard, Hearing, WaitedFor } from './bus-hearing.js'
export type { Advanced, AdvanceOptions, Journal, Plan } from './bus-journal.js'
export type { Guard, HeaderName, MessageHeaders, Outcome, Outgoing, Stored } from './bus-messages.js'
export type { AccountLimits, ConsumerStanding, Inspection, SlotLoad, StreamUsage } from './bus-standing.js'
export type { Entry, ObjectData, ObjectStore, PartStore, Table, TableBytes, TableExtent, TableReadOptions } from './bus-stores.js'
export { ClockKeeper } from './clock-keeper.js'
export type { BodyType, CodecError, Decoded } from './codec.js'
export { bodyType, CONTENT_TYPE, decode, decodeTrusted, encode } from './codec.js'
export type { BusOptions } from './connect.js'
export { openBus } from './connect.js'
export { type ContenderFolder, type Contending, contend } from './contenders.js'
export { type Credentials, type CredentialsFacts, credentialsFacts, type TlsFiles } from './credentials.js'
export {
  busFromEnvironment,
  DEFAULT_SERVER,
  namedCredentials,
  nodeRandom,
  parseCredentials,
  readTextFile,
  serverClock,
  serverFromEnvironment,
  signInFromEnvironment,
  tlsFromEnvironment,
  topologyFromEnvironment,
} from './environment.js'
export type { Difference, NoReply } from './errors.js'
export {
  BusReadError,
  BusUnreachable,
  JournalTooLong,
  NoStorageError,
  PartError,
  PartsFullError,
  PartTakenError,
  StreamLost,
  TopologyError,
} from './errors.js'
export type { ParsedSubject } from './facts.js'
export type { Grant, PermissionContext } from './grants.js'
export { HeaderIndex } from './header-index.js'
export { encodeHeaders, readHeaders } from './headers.js'
export { type HealthEndpoint, healthPort, serveHealth } from './health-endpoint.js'
export { DEFAULT_ID_WINDOW_MS, otherIdWindow } from './id-window.js'
export { intern } from './interned.js'
export { type JournalPublisher, StreamJournal } from './journal.js'
export type { JournalApi } from './journal-reads.js'
export { counter, gauge, metricsText, processMetrics } from './metrics.js'
export { ObjectError } from './object-stream.js'
export { loadParts } from './part-store.js'
export type { Joined, LoadedPart } from './parts.js'
export { joinContext, joinOutput, splitContext, splitOutput } from './parts.js'
export { permissionTable } from './permission-table.js'
export type { Principal } from './permissions.js'
export { grantsFor, permissionsFor, userOf, usersFor } from './permissions.js'
export { type PolicyDraft, type PolicyOutcome, type PolicyStand, PolicyStore } from './policy-store.js'
export { QuestionLimits } from './quotas/question-limits.js'
export { type Listed, Roster } from './roster.js'
export { partToken } from './seal.js'
export { parseServers, type ServerAddresses, SettingError, withoutSecrets } from './server-address.js'
export { closingOnFailure, runService, startService } from './service-process.js'
export { StoreWatch } from './store-watch.js'
export { inboxPrefixOf, Subjects, sequenceOfBad } from './subjects.js'
export { TableError } from './tables.js'
export { machineTiming, type Timing } from './timing.js'
export { DECISIONS, DISPATCHER, deliveriesOf, NOTIFIER, NOTIFIER_DECISIONS, NOTIFIER_HELD, NOTIFIER_PENDING } from './topology-configs.js'
export { distrust } from './trust/bounced.js'
export { believedAgents, ToldAgents } from './trust/told-agents.js'
export { type Untold, untoldEntries, untoldText } from './trust/untold.js'
export { waitForTime } from './wait-for-time.js'
