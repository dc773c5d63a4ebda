#!/usr/bin/env bash
# Fuzzes every target for SECONDS, from the files in inputs/ and from earlier findings.
# Usage: tests/fuzz/run.sh BUILD_DIRECTORY SECONDS
# An input that breaks a target is left in BUILD_DIRECTORY/fuzz. After the fix it belongs in inputs/.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "${1:?usage: run.sh BUILD_DIRECTORY SECONDS}" && pwd)
seconds=${2:?usage: run.sh BUILD_DIRECTORY SECONDS}
failed=0
for inputs in "$here"/inputs/*/; do
  target=$(basename "$inputs")
  found="$build/fuzz/$target"
  mkdir -p "$found"
  echo "== $target, $seconds s"
  "$build/bin/fuzz_$target" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="$build/fuzz/$target-" -print_final_stats=1 "$found" "$inputs" 2>&1 |
    grep -vE '^#[0-9]+\s+(NEW|REDUCE|pulse)' | tail -n 40 || failed=1
done
exit $failed
