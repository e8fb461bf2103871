#!/usr/bin/env bash
# Makes a Docker engine answer on a Debian or Ubuntu machine: installs docker.io if there is none and starts dockerd if
# none runs. Safe to call again. Needs root (or sudo without a password). Ends 0 when `docker info` answers.
# The engine belongs to the machine and stays; its process id is in /var/run/docker.pid.
set -u
PID_FILE=/var/run/docker.pid
LOG=/var/log/passover-dockerd.log

answers() { timeout 10 docker info >/dev/null 2>&1; }
answers && exit 0

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi; }
as_root true 2>/dev/null || { echo "No Docker engine answers, and starting one needs root." >&2; exit 1; }

install() { as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends docker.io iptables; }
if ! command -v dockerd >/dev/null; then
  command -v apt-get >/dev/null || { echo "No Docker engine, and no apt-get to install one with." >&2; exit 1; }
  report=$(install 2>&1) || report=$(as_root apt-get update 2>&1 && install 2>&1) || { tail -n 20 <<<"$report" >&2; exit 1; }
fi
# The package's init script may have started it.
answers && exit 0

runs() { [ -s "$PID_FILE" ] && grep -qs dockerd "/proc/$(cat "$PID_FILE")/comm"; }
# A file left by a killed engine may name another process by now; dockerd would then refuse to start.
runs || as_root rm -f "$PID_FILE"

start() {
  runs || as_root bash -c 'log=$1; shift; nohup setsid dockerd "$@" >"$log" 2>&1 </dev/null & disown' start "$LOG" --pidfile "$PID_FILE" "$@"
  for ((i = 0; i < 60; i++)); do
    answers && return 0
    sleep 0.5
    ((i < 4)) || runs || return 1
  done
  return 1
}

# A kernel without nftables wants the older tables; one without overlayfs the undemanding storage driver.
start && exit 0
if [ -e /usr/sbin/iptables-legacy ]; then
  as_root update-alternatives --set iptables /usr/sbin/iptables-legacy >/dev/null 2>&1
  start && exit 0
fi
start --storage-driver=vfs && exit 0
echo "dockerd does not come up; the end of $LOG:" >&2
as_root tail -n 20 "$LOG" >&2
exit 1
