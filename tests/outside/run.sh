#!/usr/bin/env bash
# Installs a build, and uses the installation as a stranger would: configures, compiles and runs the
# project next to this file against it. Usage: tests/outside/run.sh BUILD_DIRECTORY
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "${1:?usage: run.sh BUILD_DIRECTORY}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_LIBRARY_PATH
export MOBULA_ADDRESS=local

cmake --install "$build" --prefix "$work/first"
# An installation may be moved: nothing in it names the place it was made for.
mv "$work/first" "$work/prefix"
"$work/prefix/bin/mobula" --version

cmake -S "$here" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix"
cmake --build "$work/build"

# Dependencies of Mobula are private: no header of theirs reaches the compilation of a user's file.
if ninja -C "$work/build" -t deps | grep -E '/(fmt|sqlite|spdlog|zmq|sodium|msgpack|hwloc|nlohmann|CLI|openssl)[/.]'; then
  echo "the headers above reached a user's compilation" >&2
  exit 1
fi

printed=$(timeout 60 "$work/build/app")
if [[ $printed != "16 15" ]]; then
  echo "the program printed '$printed', and '16 15' was expected" >&2
  exit 1
fi
trials=$(MOBULA_TUNE_STORAGE="$work/tune" timeout 60 "$work/build/tune")
if [[ $trials != "4 trials" ]]; then
  echo "the program of Tune printed '$trials', and '4 trials' was expected" >&2
  exit 1
fi
echo "the program printed '$printed'"
