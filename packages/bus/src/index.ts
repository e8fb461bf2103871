/**
 * @passover/bus: transport and storage on NATS, and the only importer of the NATS client. It contains no rules of passes.
 *
 * I1  A publish outcome other than `stored` does not prove that the message was not stored; `lost` and `unknown` are values, never exceptions.
 * I2  Times are the server's, in whole milliseconds, independent of the machine's clock.
 * I3  Of a repeated header the last value is the server's; a republished message is trusted only by that value.
 * I4  A reader delivers every stored message once and in order, across reconnects, restarts and lost consumers.
 * I5  Hostile bytes and headers become values (CodecError, `unknown`, a missing field), never exceptions.
 * I6  Disposed objects leave no subscription, timer or consumer behind.
 * I7  Resources that someone else configured are not changed.
 */

export { type AccessFor, authFolderOf, authorityPath, credentialsPath, type ProjectAccess, projectAccess } from './auth/project-access.js'
export { type AgentCheck, type AgentCheckOptions, checkAgent, isRestricted, type ProbeResult } from './auth-check/check-agent.js'
export { ClockSync } from './clock/clock-sync.js'
export { machineTiming, type Timing } from './clock/timing.js'
export { waitForTime } from './clock/wait-for-time.js'
export type { BodyType, CodecError, Decoded } from './codec/codec.js'
export { bodyType, CONTENT_TYPE, decode, decodeTrusted, encode } from './codec/codec.js'
export { findFieldBytes } from './codec/find-field.js'
export { intern } from './codec/interned-values.js'
export { type IndexedItem, IndexedSet } from './collections/indexed-set.js'
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
} from './config-from-env.js'
export type { BusOptions } from './connect.js'
export { openBus } from './connect.js'
export { type Credentials, type CredentialsFacts, credentialsFacts, type TlsFiles } from './connection/credentials.js'
export { FileRefused, type RegularFileOptions, readRegularFile, readRegularFileSync } from './connection/regular-file.js'
export { parseServers, type ServerAddresses, SettingError, withoutSecrets } from './connection/server-address.js'
export type { JournalApi } from './journal/journal-reader.js'
export { type JournalPublisher, StreamJournal } from './journal/stream-journal.js'
export { API_ERROR, type ApiReply } from './messaging/jetstream-api.js'
export type { Grant, PermissionContext } from './permissions/grants.js'
export { permissionTable } from './permissions/permission-table.js'
export type { Principal } from './permissions/permissions.js'
export { grantsFor, permissionsFor, userOf, usersFor } from './permissions/permissions.js'
export { type AgentKept, AgentRegistry, type AgentStanding } from './registry/agent-registry.js'
export { type CurrentPolicy, type PolicyDraft, type PolicyOutcome, PolicyStore } from './registry/policy-store.js'
export { type UnannouncedEntry, unannouncedEntries, unannouncedText } from './registry/unannounced-entries.js'
export { VerifiedAgents, verifiedAgents } from './registry/verified-agents.js'
export { acquireFileLock, type LockDirectory, type LockOptions } from './service/file-lock.js'
export { type HealthEndpoint, healthPort, serveHealth } from './service/health-endpoint.js'
export { counter, gauge, metricsText, processMetrics } from './service/metrics.js'
export { QuestionLimits } from './service/question-limits.js'
export { closingOnFailure, runService, startService } from './service/run-service.js'
export { TableError } from './stores/kv-table.js'
export { ObjectError } from './stores/object-stream.js'
export { partToken } from './stores/part-encryption.js'
export { loadParts } from './stores/part-store.js'
export type { Joined, LoadedPart } from './stores/payload-parts.js'
export { joinContext, joinOutput, splitContext, splitOutput } from './stores/payload-parts.js'
export type { ParsedSubject } from './subjects/subject-facts.js'
export { inboxPrefixOf, Subjects, sequenceOfBad } from './subjects/subjects.js'
export { DECISIONS, DISPATCHER, deliveriesOf, NOTIFIER, NOTIFIER_DECISIONS, NOTIFIER_HELD, NOTIFIER_PENDING } from './topology/configs.js'
export { DEFAULT_ID_WINDOW_MS, otherIdWindow } from './topology/id-window.js'
export { StoreWatch } from './topology/store-watch.js'
export type { AskOptions, Bus, EnsureAgent, Service, TopologyOptions } from './types/bus.js'
export type { AckDecision, Consumption, Delivery, PullEnd, PullOptions, WorkSource } from './types/deliveries.js'
export type { Difference, NoReply } from './types/errors.js'
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
} from './types/errors.js'
export type { AccountLimits, ConsumerState, Inspection, PriorityLoad, StreamUsage } from './types/inspection.js'
export type { Advanced, AdvanceOptions, Journal, Plan } from './types/journal.js'
export type { Entry, ObjectData, ObjectStore, PartStore, Table, TableBytes, TableExtent, TableReadOptions } from './types/stores.js'
export type {
  FollowOptions,
  LiveSubscription,
  ReceivedReturn,
  StreamSubscription,
  SubscribeOptions,
  WaitedFor,
} from './types/subscriptions.js'
export { encodeHeaders, readHeaders } from './wire/headers.js'
export { distrust } from './wire/message-origin.js'
export type { Guard, HeaderName, MessageHeaders, PublishMessage, PublishResult, StoredMessage } from './wire/messages.js'
