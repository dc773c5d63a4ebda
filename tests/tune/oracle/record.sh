#!/usr/bin/env bash
# Records the traces in tests/tune/traces with the packages of run.sh.
# usage: tests/tune/oracle/record.sh PYTHON   (a Python of the environment of run.sh)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$here/../traces"
while read -r kind decisions divide; do
  oracle=ray_oracle.py
  [[ ! $kind =~ ^(tpe|motpe|nsga2)$ ]] || oracle=optuna_oracle.py
  options=(--decisions "$decisions" --divide "$divide" --seed 7)
  if [[ $kind =~ ^(limiter|repeater|stoppers)$ ]]; then
    oracle=wrapper_oracle.py options=(--decisions "$decisions" --seed 7)
  fi
  PYTHONDONTWRITEBYTECODE=1 "$1" "$here/$oracle" "$kind" "${options[@]}" \
    >"$here/../traces/$kind.txt"
done <<TEXT
fifo 600 1
asha 4500 20
hyperband 3000 10
bohb 3000 10
median 2500 5
pbt 3000 10
replay 3000 1
variants 900 1
tpe 1600 2
motpe 1600 2
nsga2 1600 2
limiter 900 1
repeater 900 1
stoppers 900 1
TEXT
PYTHONDONTWRITEBYTECODE=1 "$1" "$here/promotion_oracle.py" --decisions 3000 --divide 10 --seed 7 \
  >"$here/../traces/promotion.txt"
PYTHONDONTWRITEBYTECODE=1 "$1" "$here/resources_oracle.py" >"$here/../traces/resources.txt"
PYTHONDONTWRITEBYTECODE=1 "$1" "$here/sobol_oracle.py" >"$here/../traces/sobol.txt"
PYTHONDONTWRITEBYTECODE=1 "$1" "$here/sobol_oracle.py" --scrambled >"$here/../traces/sobol_scrambled.txt"
PYTHONDONTWRITEBYTECODE=1 "$1" "$here/bayes_oracle.py" >"$here/../traces/bayes.txt"
PYTHONDONTWRITEBYTECODE=1 "$1" "$here/cma_oracle.py" >"$here/../traces/cma.txt"
