#!/bin/bash
# Translate a large text file with an array of Slurm jobs, then join the parts:
#
#   array=$(sbatch --parsable examples/translate_on_slurm.sh /shared/corpus.txt /shared/parts)
#   sbatch --dependency=afterok:$array --array=0 --wrap \
#       "python examples/translate_part.py /shared/corpus.txt /shared/parts /shared/corpus.fr.txt"
#
#SBATCH --job-name=glassformer-translate
#SBATCH --array=0-31
#SBATCH --cpus-per-task=4
#SBATCH --mem=4G
#SBATCH --requeue
set -euo pipefail
# Slurm runs a copy of this file, so the example is named by the folder the job was sent from.
exec python "${SLURM_SUBMIT_DIR:-.}/examples/translate_part.py" "$1" "$2" \
    "$SLURM_ARRAY_TASK_ID" "$SLURM_ARRAY_TASK_COUNT" "${@:3}"
