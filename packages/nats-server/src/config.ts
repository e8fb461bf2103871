/** What one identity may do on the server: subjects, wildcards allowed. What is not listed is refused. */
export interface Permissions {
  publish: string[]
  /** Taken out of `publish`. */
  never?: string[]
  subscribe: string[]
  /** May answer a request once, whatever its reply subject. */
  answers?: boolean
}

/** Somebody who may connect. Without permissions: everything. */
export interface ServerUser {
  user: string
  password: string
  permissions?: Permissions
}

export interface ServerSettings {
  /**
   * How often the store is synced to disk: `always`, or a time such as `2m` (the server's default, and ours). A crash of the
   * server or of a process loses nothing either way; power loss or a kernel crash forgets acknowledged writes of the last
   * interval. `always` costs throughput by the order of ten, unless three replicas stand in for it.
   */
  sync?: 'always' | `${number}${'s' | 'm' | 'h'}`
  /** Most bytes on disk for streams (the server's default: most of what is free). */
  max_file_bytes?: number
  max_memory_bytes?: number
  /** Largest message, default 1 MiB. */
  max_payload_bytes?: number
  /** Who may connect. Left out: everybody, as everybody; only for a server that nobody else can reach. */
  users?: ServerUser[]
  /** Accounts and users are those that an operator signed, in place of `users` (see auth/installation.ts). */
  operator?: OperatorSettings
  /** Encrypts connections of clients: paths of PEM files. With `ca`, clients must show a certificate that this authority signed. */
  tls?: { cert: string; key: string; ca?: string }
  /** Serve `/varz`, `/connz` and so on on a free port of the same host. They ask for no credentials. */
  monitor?: boolean
}

/** An operator whose accounts the server takes, and where it keeps them. */
export interface OperatorSettings {
  /** The operator's signed token. */
  jwt: string
  /** Id of the account over which accounts are pushed, deleted and listed. */
  system_account: string
  /** Folder of the accounts that were pushed. */
  resolver_dir: string
  /** Account id → signed token, of accounts that must be there from the start. A newer one in the folder wins. */
  preload: Record<string, string>
}

export interface ClusterSettings {
  name: string
  /** Address that the other servers reach this one at. */
  host: string
  port: number
  /** `nats-route://host:port` of every server, this one too if convenient. */
  routes: string[]
  /** Tells clients of the other servers; off where their addresses mean nothing to clients (containers). Default true. */
  advertise?: boolean
  /** `host:port` that the other servers tell each other of this one; default: what it listens on. */
  route_advertise?: string
}

export interface ServerPlace {
  name: string
  host: string
  /** -1: a free one. */
  port: number
  store: string
  ports_folder?: string
  log?: string
  /** -1: a free one; used when settings.monitor is set. */
  monitor_port?: number
}

/** The server's configuration as text. JSON is a part of its syntax, and quoting there is not in doubt: `2m` unquoted is two million. */
export function serverConfig(place: ServerPlace, settings: ServerSettings = {}, cluster?: ClusterSettings): string {
  if (settings.users && settings.operator) throw new Error('a server takes either users or the accounts of an operator, not both')
  const config = {
    server_name: place.name,
    host: place.host,
    port: place.port,
    ...(settings.monitor ? { http: `${place.host}:${place.monitor_port ?? -1}` } : {}),
    ...(place.ports_folder ? { ports_file_dir: place.ports_folder } : {}),
    ...(place.log ? { log_file: place.log, logfile_size_limit: 32 << 20, logfile_max_num: 3 } : {}),
    max_payload: settings.max_payload_bytes ?? 1 << 20,
    // Bounds subjects, which the server keeps in memory. Ours have 500 characters at most, a signed CONNECT 1,100.
    max_control_line: 2048,
    // A client that takes longer than this to take its messages in is cut off, and connects again.
    write_deadline: '10s',
    jetstream: {
      store_dir: place.store,
      sync_interval: settings.sync ?? '2m',
      ...(settings.max_file_bytes ? { max_file_store: settings.max_file_bytes } : {}),
      ...(settings.max_memory_bytes ? { max_memory_store: settings.max_memory_bytes } : {}),
    },
    ...(settings.operator ? operatorEntries(settings.operator) : {}),
    ...(settings.tls ? { tls: tlsEntry(settings.tls) } : {}),
    ...(settings.users ? { authorization: { users: settings.users.map(userEntry) } } : {}),
    ...(cluster
      ? {
          cluster: {
            name: cluster.name,
            host: cluster.host,
            port: cluster.port,
            routes: cluster.routes,
            no_advertise: cluster.advertise === false,
            ...(cluster.route_advertise ? { advertise: cluster.route_advertise } : {}),
          },
        }
      : {}),
  }
  return `${JSON.stringify(config, undefined, 2)}\n`
}

function operatorEntries({ jwt, system_account, resolver_dir, preload }: OperatorSettings): object {
  return {
    operator: jwt,
    system_account,
    resolver: { type: 'full', dir: resolver_dir, allow_delete: true, interval: '2m' },
    resolver_preload: preload,
  }
}

function tlsEntry({ cert, key, ca }: NonNullable<ServerSettings['tls']>): object {
  return { cert_file: cert, key_file: key, ...(ca ? { ca_file: ca, verify: true } : {}) }
}

function userEntry({ user, password, permissions }: ServerUser): object {
  if (!/^[\x21-\x7e]+$/.test(password) || /^\$2[aby]?\$/.test(password))
    throw new Error(`the password of ${user} must be printable ASCII and no bcrypt hash`)
  if (!permissions) return { user, password }
  const { publish, never, subscribe, answers } = permissions
  return {
    user,
    password,
    permissions: {
      publish: { allow: publish, ...(never ? { deny: never } : {}) },
      subscribe: { allow: subscribe },
      ...(answers ? { allow_responses: { max: 1, expires: '2m' } } : {}),
    },
  }
}
