#!/bin/bash
# Ranks of node-nbc under the mpirun that is installed: run.sh RANKS PROGRAM [ARGUMENT]…
# The machines stand in hosts.openmpi or hosts.mpich, beside this file. Variables NBC_… travel to all of them.
set -euo pipefail

here=$(dirname "$0")
mpirun=${MPIRUN:-mpirun}
ranks=$1
shift

if [[ $("$mpirun" --version) == *HYDRA* ]]; then
  exec "$mpirun" -n "$ranks" -f "$here/hosts.mpich" node "$@" # MPICH
fi
variables=()
for name in "${!NBC_@}"; do variables+=(-x "$name"); done
# Bound to one processor, a rank would share it with its progress thread.
exec "$mpirun" -n "$ranks" --hostfile "$here/hosts.openmpi" --bind-to none "${variables[@]}" node "$@"
