#!/usr/bin/env bash
# The rehearsal of the run on a GPU: the bundle of this build, unpacked elsewhere, on simulated
# devices.
#   bundle_test.sh BUILD PREPARE SIMULATED_CUDA SIMULATED_NVML SIMULATED_NCCL MPS_DIRECTORY
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "bundle_test: $*" >&2
  exit 1
}

# A build without optimization is larger than a bundle may be.
MOBULA_PREPARE_BUILD=0 MOBULA_PREPARE_GZIP=1 MOBULA_PREPARE_LIMIT=200000000 "$2" "$1" "$work/bundle.tar.gz"
mkdir "$work/machine" "$work/gpus"
tar -C "$work/machine" -xzf "$work/bundle.tar.gz"
run=$work/machine/gpu-check/run
check=$work/machine/gpu-check/bin/mobula-gpu-check

# Without a driver no stage passes, and the exit code differs from that of a failure.
export MOBULA_CUDA_LIBRARY=libno-such-cuda.so MOBULA_NVML_LIBRARY=libno-such-nvml.so MOBULA_NCCL_LIBRARY=libno-such-nccl.so
code=0
"$run" "$work/none" --short || code=$?
[ $code = 3 ] || fail "exit code $code without a driver, expected 3"
if grep -q '"status":"\(passed\|failed\)"' "$work"/none/no-gpu-*.jsonl; then fail "a stage passed or failed without a driver"; fi

# The whole bundle, with a record and a page of the device and the date.
export MOBULA_SIMULATED_GPU="directory=$work/gpus count=1 memory=4294967296"
export MOBULA_CUDA_LIBRARY=$3 MOBULA_NVML_LIBRARY=$4 PATH=$6:$PATH
# NCCL is where PyTorch has it.
unset MOBULA_NCCL_LIBRARY
mkdir -p "$work/site/nvidia/nccl/lib"
ln -s "$5" "$work/site/nvidia/nccl/lib/libnccl.so.2"
export PYTHONPATH=$work/site
begin=$SECONDS
"$run" "$work/results" --short || fail "a stage failed: $(grep -h '"holds":false\|"status":"failed"' "$work"/results/*.jsonl)"
echo "rehearsal: $((SECONDS - begin)) s"
record=$(ls "$work"/results/simulated-gpu-*.jsonl)
page=${record%.jsonl}.md
grep -q '"simulated":true' "$record"
grep -q 'These are simulated devices' "$page"
[ "$(grep -c '"status":"skipped"' "$record")" -le 2 ] || fail "more was skipped than PyTorch and the ranks of one host"
for stage in facts probe cluster 'cluster nccl' vmm 'tensors by nccl' 'tensors staged' interception 'memory after exit' mps 'two processes'; do
  grep -q "\"stage\":\"$stage\",\"status\":\"passed\"" "$record" || fail "$stage did not pass"
done

export MOBULA_NCCL_LIBRARY=$5
# A probe equals itself and the record in the bundle; it differs from that of a driver that answers
# otherwise.
export LD_LIBRARY_PATH=$work/machine/gpu-check/lib
grep -q '"what":"differences from the simulation","value":0' "$record"
"$check" --compare "$record" "$work/machine/gpu-check/simulated.jsonl"
MOBULA_SIMULATED_GPU="$MOBULA_SIMULATED_GPU fail=cuMemsetD8Async@1:700" "$check" --results "$work/other" --short --only probe || true
if "$check" --compare "$record" "$work"/other/*.jsonl > "$work/differences"; then fail "no difference of another driver"; fi
grep -q 'cuMemsetD8Async' "$work/differences"

# The index of a directory of records.
"$check" --index "$work/results"
grep -q "](simulated-gpu-.*\.md)" "$work/results/README.md"
