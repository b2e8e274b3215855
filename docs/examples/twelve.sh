#!/bin/bash
#SBATCH --array=0-2 --cpus-per-task=2 --mem=2G --time=12:00:00 --requeue
# Twelve tokenizers: three patterns, a mixture and parity of the sources, two sizes. Each text is counted once per pattern.
patterns=(llama3 o200k o200k+digits1)
pattern=${patterns[$SLURM_ARRAY_TASK_ID]}
for source in stories recipes; do
  srun bpe-pipeline count "corpus/$source.txt" --pattern "$pattern" --output "runs/$pattern/$source" --quiet
done
cd "runs/$pattern" || exit
bpe-pipeline combine stories recipes --temperature 3 --output mixed --quiet
bpe-pipeline merge mixed --vocab-size "${SIZES:-65536,32768}" --quiet
bpe-pipeline parity stories=stories recipes=recipes --temperature inf --vocab-size "${SIZES:-65536,32768}" --output fair --quiet
