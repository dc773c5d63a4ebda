# Checks of test scripts, with a result line for each. Source this file. `$work` is a directory for
# temporary files.
checks=0
failed=no

# check TEXT COMMAND: runs the command and prints the result; a failed check prints the output.
check() {
  local what=$1
  shift
  checks=$((checks + 1))
  if "$@" >"$work/check" 2>&1; then
    echo "ok    $what"
  else
    echo "FAIL  $what"
    sed 's/^/      /' "$work/check"
    failed=yes
  fi
}

# within SECONDS COMMAND: polls until the command succeeds, for at most SECONDS.
within() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || { echo "not within its time: $*"; return 1; }
    read -rt 0.2 <> <(:) || true
  done
}
