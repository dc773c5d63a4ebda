#!/usr/bin/env bash
# expect_skipped.sh TEXT PROGRAM ARGS...: succeeds if the program exits with 77 and prints TEXT on stderr.
text=$1
shift
printed=$("$@" 2>&1 >/dev/null)
code=$?
echo "$printed"
if ((code != 77)); then
  echo "expect_skipped: exit code 77 expected, got $code" >&2
  exit 1
fi
if [[ $printed != *"$text"* ]]; then
  echo "expect_skipped: the program did not print '$text'" >&2
  exit 1
fi
