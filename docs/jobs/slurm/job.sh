#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
# A job of node-nbc where Slurm has no PMIx: sbatch job.sh PROGRAM [ARGUMENT]…
set -euo pipefail

# Rank 0 runs on the first node. A port of its own for each job of a node.
node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export NBC_STORE=$node:$((20000 + SLURM_JOB_ID % 20000))
NBC_SECRET=$(openssl rand -hex 32)
export NBC_SECRET

srun --kill-on-bad-exit=1 node "$@"
