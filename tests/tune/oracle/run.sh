#!/usr/bin/env bash
# Compares Mobula's schedulers and searchers with Ray Tune 2.60, Syne Tune 0.13, and Optuna 5.0 on random decisions.
# usage: tests/tune/oracle/run.sh BUILD [DECISIONS [SEED]]
# BUILD is a build directory with bin/mobula-tune-trace; with bin/mobula and tune_report_test, exports are compared too. DECISIONS per rule (default: 2000); the full comparison is
#   tests/tune/oracle/run.sh build/release 500000
# tests/tune/oracle/schedulers.sh compares the schedulers alone. environment.sh describes the Python environment.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1 decisions=${2:-2000} seed=${3:-1}
. "$here/environment.sh"

status=0
compare() {
  local name=$1 text result=0
  shift
  text=$("$python" "$@" --seed "$seed" | "$build/bin/mobula-tune-trace" | tail -n 4) || result=1
  echo "$name: $text"
  return $result
}
if ((decisions < 10000)); then
  # One process, because the import of Ray takes longer than the decisions.
  compare "ray schedulers" "$here/ray_oracle.py" all --decisions "$decisions" || status=1
  compare "ray wrappers" "$here/wrapper_oracle.py" all --decisions "$decisions" || status=1
else
  for kind in asha hyperband bohb median pbt fifo replay variants; do
    compare "$kind" "$here/ray_oracle.py" "$kind" --decisions "$decisions" || status=1
  done
  for kind in limiter repeater stoppers; do
    compare "$kind" "$here/wrapper_oracle.py" "$kind" --decisions "$decisions" || status=1
  done
fi
if [[ -x $build/tests/tune/report/tune_report_test && -x $build/bin/mobula ]]; then
  "$python" "$here/export_oracle.py" "$build" || status=1
fi
compare promotion "$here/promotion_oracle.py" --decisions "$decisions" || status=1
compare tpe "$here/optuna_oracle.py" tpe --decisions $((decisions / 4)) || status=1
compare motpe "$here/optuna_oracle.py" motpe --decisions $((decisions / 8)) || status=1
compare nsga2 "$here/optuna_oracle.py" nsga2 --decisions $((decisions / 4)) || status=1
exit $status
