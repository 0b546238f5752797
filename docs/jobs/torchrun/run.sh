#!/bin/bash
# The ranks of one machine, by the variables of torchrun. On each machine, numbered from 0:
#
#     NBC_SECRET=$(cat secret) run.sh MACHINE PROGRAM [ARGUMENT]…
set -euo pipefail

: "${NBC_SECRET:?must be the same on all machines: what openssl rand -hex 32 prints}"
export MASTER_ADDR=${MASTER_ADDR:-node-0} # machine 0
export MASTER_PORT=${MASTER_PORT:-4711}   # a port that is free there
machines=${MACHINES:-2}
ranks=${RANKS_PER_MACHINE:-4}
export WORLD_SIZE=$((machines * ranks))
machine=$1
shift

processes=()
for ((i = 0; i < ranks; i++)); do
  RANK=$((machine * ranks + i)) node "$@" &
  processes+=($!)
done
status=0
for process in "${processes[@]}"; do wait "$process" || status=$?; done
exit $status
