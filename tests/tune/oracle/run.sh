#!/usr/bin/env bash
# Compares Mobula's schedulers and searchers with Ray Tune 2.60, Syne Tune 0.13, and Optuna 5.0 on random decisions.
# usage: tests/tune/oracle/run.sh BUILD [DECISIONS [SEED]]
# BUILD is a build directory with bin/mobula-tune-trace; with bin/mobula and tune_report_test, exports are compared too. DECISIONS per rule (default: 2000); the full comparison is
#   tests/tune/oracle/run.sh build/release 500000
# The Python environment is installed into build/tune-oracle (1 GB), again if the packages change. Without PyPI, the comparison is skipped.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1 decisions=${2:-2000} seed=${3:-1}
environment=$here/../../../build/tune-oracle
packages=(ray[tune]==2.60.0 optuna==5.0.0 cmaes==0.13.1 bayesian-optimization==1.4.3 numpy==2.4.6 scipy==1.17.1
  scikit-learn==1.9.1 sortedcontainers tensorboard)

if [[ $(cat "$environment/complete" 2>/dev/null) != "${packages[*]}" ]]; then
  rm -rf "$environment"
  if ! { python3 -m venv "$environment" && timeout 600 "$environment/bin/pip" install -q "${packages[@]}" &&
    timeout 60 "$environment/bin/pip" install -q --no-deps syne-tune==0.13.0; } >/dev/null 2>&1; then
    rm -rf "$environment"
    echo "tune oracle: skipped, because PyPI is not reached; the recorded traces in tests/tune/traces are still compared"
    exit 0
  fi
  echo "${packages[*]}" >"$environment/complete"
fi

export PYTHONDONTWRITEBYTECODE=1
status=0
compare() {
  local name=$1 text result=0
  shift
  text=$("$environment/bin/python" "$@" --seed "$seed" | "$build/bin/mobula-tune-trace" | tail -n 4) || result=1
  echo "$name: $text"
  return $result
}
if ((decisions < 10000)); then
  # One process, because the import of Ray takes longer than the decisions.
  compare "ray schedulers" "$here/ray_oracle.py" all --decisions "$decisions" || status=1
  compare "ray wrappers" "$here/wrapper_oracle.py" all --decisions "$decisions" || status=1
else
  for kind in asha hyperband bohb median pbt fifo variants; do
    compare "$kind" "$here/ray_oracle.py" "$kind" --decisions "$decisions" || status=1
  done
  for kind in limiter repeater stoppers; do
    compare "$kind" "$here/wrapper_oracle.py" "$kind" --decisions "$decisions" || status=1
  done
fi
if [[ -x $build/tests/tune/report/tune_report_test && -x $build/bin/mobula ]]; then
  "$environment/bin/python" "$here/export_oracle.py" "$build" || status=1
fi
compare promotion "$here/promotion_oracle.py" --decisions "$decisions" || status=1
compare tpe "$here/optuna_oracle.py" tpe --decisions $((decisions / 4)) || status=1
compare motpe "$here/optuna_oracle.py" motpe --decisions $((decisions / 8)) || status=1
compare nsga2 "$here/optuna_oracle.py" nsga2 --decisions $((decisions / 4)) || status=1
exit $status
