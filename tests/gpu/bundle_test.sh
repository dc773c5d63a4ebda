#!/usr/bin/env bash
# The bundle of the run on a GPU, made from this build, taken elsewhere and run on simulated devices.
#   bundle_test.sh BUILD MAKE_BUNDLE SIMULATED_CUDA SIMULATED_NVML SIMULATED_NCCL
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
XZ_OPT=-0 "$2" "$1" "$work/bundle.tar.xz"
mkdir "$work/machine" "$work/gpus"
tar -C "$work/machine" -xf "$work/bundle.tar.xz"
export MOBULA_SIMULATED_GPU="folder=$work/gpus count=1 memory=2147483648"
export MOBULA_CUDA_LIBRARY=$3 MOBULA_NVML_LIBRARY=$4 MOBULA_NCCL_LIBRARY=$5
for stage in facts shares probe "tensors staged" torch; do
  "$work/machine/gpu-check/run" "$work/results" --short --only "$stage"
done
grep -q '"simulated":true' "$work/results/results.jsonl"
grep -q 'These are simulated devices' "$work/results/gpu-results.md"
grep -q '"stage":"probe","status":"passed"' "$work/results/results.jsonl"
grep -q '"stage":"tensors staged","status":"passed"' "$work/results/results.jsonl"
grep -Eq '"stage":"torch","status":"(passed|skipped)"' "$work/results/results.jsonl"
# A run is the same as itself, and not the same as one whose driver answers otherwise.
check=$work/machine/gpu-check/bin/mobula-gpu-check
export LD_LIBRARY_PATH=$work/machine/gpu-check/lib
"$check" --compare "$work/results/results.jsonl" "$work/results/results.jsonl"
MOBULA_SIMULATED_GPU="$MOBULA_SIMULATED_GPU fail=cuMemsetD8Async@1:700" "$check" --out "$work/other.jsonl" --short --only probe || true
if "$check" --compare "$work/results/results.jsonl" "$work/other.jsonl" > "$work/differences"; then
  echo "a driver that answers otherwise was not noticed"
  exit 1
fi
grep -q 'cuMemsetD8Async' "$work/differences"
