#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
# A job of node-nbc where Slurm has neither PMIx nor PMI-2: sbatch job.sh PROGRAM [ARGUMENT]…
set -euo pipefail

# Rank 0 runs on the first node. A port of its own for each job of a node, below those that the system gives away.
read -r node < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export NBC_STORE=$node:$((20000 + SLURM_JOB_ID % 10000))
NBC_SECRET=$(head -c 32 /dev/urandom | base64 -w 0)
export NBC_SECRET

# srun does not take over --cpus-per-task by itself.
srun --kill-on-bad-exit=1 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" node "$@"
