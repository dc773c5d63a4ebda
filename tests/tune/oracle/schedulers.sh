#!/usr/bin/env bash
# Compares at least DECISIONS random decisions of each deterministic scheduler with Ray Tune 2.60 (promotion: Syne Tune 0.13).
# usage: tests/tune/oracle/schedulers.sh BUILD [DECISIONS [SEED [KIND...]]]   (default: 500,000 decisions from seed 1, all kinds)
# BUILD is a build directory with bin/mobula-tune-trace. A part has at most 25,000 decisions and a separate process of both
# sides, so that memory is bounded. Prints one line per scheduler. On a difference, it prints the part's kind and seed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1 decisions=${2:-500000} seed=${3:-1}
shift "$(($# < 3 ? $# : 3))"
kinds=("$@")
((${#kinds[@]})) || kinds=(fifo asha promotion hyperband bohb median pbt replay resources)
. "$here/environment.sh"

trace() {
  case $1 in
    promotion) "$python" "$here/promotion_oracle.py" --decisions "$2" --seed "$3" ;;
    resources) "$python" "$here/resources_oracle.py" --decisions "$2" --seed "$3" ;;
    *) "$python" "$here/ray_oracle.py" "$1" --decisions "$2" --seed "$3" ;;
  esac
}

status=0
for kind in "${kinds[@]}"; do
  began=$SECONDS made=0 compared=0 different=0 part=$seed
  while ((made < decisions)); do
    size=$((decisions - made < 25000 ? decisions - made : 25000))
    ((size >= 1000)) || size=1000
    text=$(trace "$kind" "$size" "$part" | "$build/bin/mobula-tune-trace") || true
    if [[ ! $text =~ ([0-9]+)\ compared,\ ([0-9]+)\ different,\ ([0-9]+)\ decisions ]] || ((BASH_REMATCH[3] == 0)); then
      echo "$kind: seed $part: no comparison: $text"
      exit 1
    fi
    compared=$((compared + BASH_REMATCH[1])) different=$((different + BASH_REMATCH[2])) made=$((made + BASH_REMATCH[3]))
    ((BASH_REMATCH[2] == 0)) || echo "$kind: seed $part, $size decisions: $text"
    part=$((part + 1))
  done
  echo "$kind: $made decisions, $compared comparisons, $different different, $((SECONDS - began)) s"
  ((different == 0)) || status=1
done
exit $status
