/** Permissions of one user: subjects, wildcards allowed. The server denies everything else. */
export interface Permissions {
  publish: string[]
  /** Subjects excluded from `publish`. */
  never?: string[]
  subscribe: string[]
  /** True if it may answer each request once, on any reply subject. */
  answers?: boolean
}

/** A user that may connect. Without permissions it may do everything. */
export interface ServerUser {
  user: string
  password: string
  permissions?: Permissions
}

export interface ServerSettings {
  /**
   * Interval at which the store is synced to disk: `always`, or a time such as `2m` (default of the server and of Passover). A crash of the server or
   * of a process loses nothing either way; power loss or a kernel crash loses acknowledged writes of the last interval. `always` reduces throughput
   * by about a factor of ten; three replicas are an alternative.
   */
  sync?: 'always' | `${number}${'s' | 'm' | 'h'}`
  /** Maximum bytes of streams on disk. Default of the server: most of the free space. */
  max_file_bytes?: number
  max_memory_bytes?: number
  /** Maximum message size. Default 1 MiB. */
  max_payload_bytes?: number
  /** Users that may connect. If omitted, anyone may connect and do everything; only for a server that is not reachable by others. */
  users?: ServerUser[]
  /** Accounts and users signed by an operator, in place of `users` (see auth/installation.ts). */
  operator?: OperatorSettings
  /** TLS for client connections: paths of PEM files. With `ca`, clients must present a certificate signed by that authority. */
  tls?: { cert: string; key: string; ca?: string }
  /** Serves `/varz`, `/connz` and so on, without credentials, on a free port of the same host. */
  monitor?: boolean
}

/** The operator whose accounts the server accepts, and the folder in which it stores them. */
export interface OperatorSettings {
  /** The operator's signed token. */
  jwt: string
  /** Id of the account through which accounts are pushed, deleted and listed. */
  system_account: string
  /** Folder of the pushed accounts. */
  resolver_dir: string
  /** Tokens by account id, for accounts that must exist from the start. A newer token in the folder takes precedence. */
  preload: Record<string, string>
}

export interface ClusterSettings {
  name: string
  /** Address at which the other servers reach this one. */
  host: string
  port: number
  /** `nats-route://host:port` of every server; may include this one. */
  routes: string[]
  /** True to announce the addresses of the other servers to clients. Turn off if clients cannot reach them (containers). Default true. */
  advertise?: boolean
  /** `host:port` of this server that is announced to the other servers. Default: its listen address. */
  route_advertise?: string
}

export interface ServerPlace {
  name: string
  host: string
  /** Port; -1 for a free one. */
  port: number
  store: string
  ports_folder?: string
  log?: string
  /** Port for monitoring, used if settings.monitor is set; -1 for a free one. */
  monitor_port?: number
}

/** Returns the server's configuration as text. Uses JSON, which the server accepts and whose quoting is unambiguous: `2m` unquoted is two million. */
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
    // Limits the length of subjects, which the server keeps in memory. Ours have 500 characters at most, a signed CONNECT 1,100.
    max_control_line: 2048,
    // A client that takes longer to receive its messages is disconnected, and reconnects.
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
    throw new Error(`the password of ${user} must be printable ASCII and not a bcrypt hash`)
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
