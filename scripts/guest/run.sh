# shellcheck shell=bash disable=SC1091,SC2154
# The guest's second stage, run by init among the host's files: the rest of the file systems, the RDMA devices, and the
# job of scripts/rdma-guest. Without /run/share/status at the end, something here went wrong and the console says what.
set -euo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
share=/run/share
source $share/settings

# --- File systems

for folder in "${visible[@]}"; do
  if [[ ! -d $folder ]]; then
    mkdir -p "$folder"
    mount --bind "/run/host$folder" "$folder"
  fi
done
if [[ -n $results ]]; then
  mkdir -p "$results"
  mount -t 9p -o trans=virtio,version=9p2000.L,cache=none,msize=512000 results "$results"
fi

# --- RDMA devices

# rxe_on NAME NETWORK-DEVICE: adds a device and waits until its port can be used.
rxe_on() {
  local state=/sys/class/infiniband/$1/ports/1/state
  rdma link add "$1" type rxe netdev "$2"
  for ((i = 0; i < 100; i++)); do
    ! grep -q ACTIVE "$state" || return 0
    sleep 0.1
  done
  echo "$1 is not active after 10 s: $(<"$state")"
  return 1
}

# All commands of ip in one process each: to start one takes 0.2 s here, more on a busy machine.
if [[ $peer != 0 ]]; then
  # The one interface that is on a bus.
  for interface in /sys/class/net/*/device; do interface=$(basename "$(dirname "$interface")"); done
  ip -batch - <<END
link set lo up
link set $interface name net0
address add 10.7.2.$peer/24 dev net0
link set net0 up
END
  rxe_on rxe0 net0
elif [[ $link != veth ]]; then
  # The module has made dummy0 already.
  ip -batch - <<'END'
link set lo up
address add 10.7.1.1/24 dev dummy0
link set dummy0 up
END
  rxe_on rxe0 dummy0
fi
if [[ $link != none ]]; then
  ip link set lo up
  bash $share/link make
  if [[ $delay != 0 ]]; then
    for name in vc vd; do tc qdisc add dev $name root netem delay "${delay}ms" limit 100000; done
  fi
  rxe_on rxc vc
  rxe_on rxd vd
fi

# --- The job

# Pipes, as on any other machine: the shared files could not be opened a second time, as /dev/stderr, without being
# emptied.
mkfifo /run/stdout /run/stderr
cat /run/stdout >$share/stdout &
cats=$!
cat /run/stderr >$share/stderr &
cats+=" $!"
status=0
bash $share/job </dev/null >/run/stdout 2>/run/stderr || status=$?

# What the command left running may hold the pipes; it has 5 s to end.
# shellcheck disable=SC2086
{ sleep 5 && kill $cats; } 2>/dev/null &
# shellcheck disable=SC2086
wait $cats || true
echo $status >$share/status
