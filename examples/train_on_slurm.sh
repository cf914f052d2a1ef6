#!/bin/bash
# Train on several machines with torchrun under Slurm; every machine reads the same run folder:
#
#   sbatch --nodes=4 examples/train_on_slurm.sh wmt14 /shared/runs/wmt14
#
# Sent again it goes on from the last checkpoint. On GPUs add --gpus-per-node, and let
# PROCESSES be the number of GPUs of a machine.
#SBATCH --job-name=glassformer-train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --requeue
set -euo pipefail
recipe=$1 run=$2
processes=${PROCESSES:-2}
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
first=${hosts%%$'\n'*}
train=(train "$recipe" --run "$run" "train.threads=$((SLURM_CPUS_PER_TASK / processes))")
if [ -e "$run/latest" ]; then train+=(--resume); fi
exec srun torchrun --nnodes "$SLURM_JOB_NUM_NODES" --nproc-per-node "$processes" \
    --rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$first:29500" \
    -m -- glassformer "${train[@]}" "${@:3}"
