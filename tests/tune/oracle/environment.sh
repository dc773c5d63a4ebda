# Sets `python` to a Python with Ray Tune 2.60, Optuna 5.0, and Syne Tune 0.13, or ends the script that sources this file.
# Uses MOBULA_ORACLE_PYTHON if it is set. Otherwise the packages are installed into build/tune-oracle (1 GB), again if they
# change. Without PyPI, the comparison is skipped.
python=${MOBULA_ORACLE_PYTHON:-}
if [[ -z $python ]]; then
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
  python=$environment/bin/python
fi
export PYTHONDONTWRITEBYTECODE=1
