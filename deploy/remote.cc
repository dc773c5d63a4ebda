#include "deploy/remote.h"

#include <fmt/format.h>
#include <poll.h>

#include <array>

namespace mobula::internal::deploy {
namespace {

constexpr int ssh_failed = 255;
constexpr int taken = 73;  // exit code of the script: another process changes the cluster

// For any POSIX shell. Variables: install, state (may be empty), name, hash, action, and those of
// the action. It knows only processes that files in the cluster's directory name.
constexpr const char* script_text = R"sh(
set -u
umask 077
case $install in /*) ;; *) install=$HOME/$install ;; esac
if [ -z "$state" ]; then
  if [ -n "${MOBULA_STATE_DIR:-}" ]; then state=$MOBULA_STATE_DIR
  elif [ "$(id -u)" = 0 ]; then state=/var/lib/mobula
  else state=${XDG_STATE_HOME:-$HOME/.local/state}/mobula; fi
fi
case $state in /*) ;; *) state=$HOME/$state ;; esac
dir=$state/$name
programs=$install/programs
current=$install/clusters/$name
fail() { echo "$*" >&2; exit 1; }
use() { program=$1; LD_LIBRARY_PATH=$1/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; export LD_LIBRARY_PATH; }
boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
# Prints a scalar member of a JSON file that the program has written.
member() { sed -n "s/.*\"$2\": *\"\{0,1\}\([^\",}]*\).*/\1/p" "$1" 2>/dev/null; }
# Prints the start time of a process in ticks since boot (proc(5)), or nothing if it has ended.
begun() { sed -n 's/^.*) [^ZX] //p' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 19; }
# Prints "PID HEAD PROGRAM" of each running process. The start time detects a reused pid.
running() {
  for file in "$dir"/running/*.json; do
    [ -f "$file" ] || continue
    # Skips processes that have ended.
    pid=$(member "$file" pid)
    ticks=$(begun "$pid")
    [ -n "$ticks" ] && [ "$ticks" = "$(member "$file" start_time)" ] || continue
    # Skips processes of an earlier boot.
    [ "$boot" = "$(member "$file" boot_id)" ] || continue
    exe=$(readlink "/proc/$pid/exe" 2>/dev/null) || continue
    exe=${exe% (deleted)}
    case $exe in */mobula) echo "$pid $(member "$file" head) $exe" ;; esac
  done
}
# lives FILE NAME: succeeds if the head or agent that has written this file runs.
lives() {
  pid=$(member "$1" pid)
  ticks=$(begun "$pid")
  since=$(member "$1" start_time)
  # A file without a start time matches every process with this pid.
  [ -n "$pid" ] && [ -n "$ticks" ] && [ "$ticks" = "${since:-$ticks}" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ]
}
# Runs the action.
case $action in
hold)
  # The file stays: the lock belongs to the file, not to its name.
  place=$dir/.changed-by
  mkdir -p "$dir" && exec 9>>"$place" || fail "cannot write in $dir"
  if command -v flock >/dev/null; then
    flock -n 9 || { echo "by $(cat "$place"); see $place" >&2; exit $taken; }
  fi
  echo "$who" >"$place"
  echo held
  # Holds the lock until the caller has ended. The timeout covers a caller that is cut off.
  if command -v timeout >/dev/null; then timeout 3600 cat; else cat; fi >/dev/null
  : >"$place"
  ;;
probe)
  if [ -n "$mark" ]; then
    # A host that finds a mark of another host in the next step shares its directory with that host.
    # Marks of earlier runs are removed.
    mkdir -p "$dir/.up" || fail "cannot make $dir"
    for each in "$dir"/.up/*; do
      case $each in */"${mark%.*}".*) ;; *) rm -f "$each" ;; esac
    done
    echo "$host" >"$dir/.up/$mark" || fail "cannot write in $dir"
  fi
  [ -x "$programs/$hash/bin/mobula" ] && echo program=yes || echo program=no
  running | while read -r pid head exe; do
    echo "runs=$head"
  done
  # Prints whether the head and the agent run, and the addresses in their files.
  lives "$dir/head/head.json" mobula-head && echo head=yes
  lives "$dir/agent/agent.json" mobula-agent && echo agent=yes
  echo "at=$(member "$dir/head/head.json" address)"
  echo "joined=$(member "$dir/agent/agent.json" head_address)"
  # Prints the settings of the last start.
  [ -f "$dir/deployed" ] && echo "deployed=$(cat "$dir/deployed")"
  echo "machine=$(uname -s) $(uname -m)"
  ;;
receive)
  mkdir -p "$programs" || fail "cannot make $programs"
  new=$(mktemp -d "$programs/.new-XXXXXX") || fail "cannot make a directory in $programs"
  # Removes an incomplete program.
  trap 'rm -rf "$new"' EXIT
  tar -xzf - -C "$new" || fail "the program has not arrived whole in $programs; is the disk full?"
  use "$new"
  said=$("$new/bin/mobula" version 2>&1) || fail "the program does not run here: $(echo "$said" | tail -n 1)"
  [ -d "$programs/$hash" ] || mv "$new" "$programs/$hash" || fail "cannot name $programs/$hash"
  # Removes programs that no cluster uses any more.
  for old in "$programs"/*; do
    used=no
    [ "$old" = "$programs/$hash" ] && used=yes
    for each in "$install"/clusters/*; do
      [ "$(readlink "$each" 2>/dev/null)" = "$old" ] && used=yes
    done
    [ $used = yes ] || rm -rf "$old"
  done
  ;;
check)
  for each in "$dir/.up/${mark%.*}".*; do
    [ -f "$each" ] && [ "$each" != "$dir/.up/$mark" ] || continue
    fail "its state directory, $state, is also that of $(cat "$each"); state_dir must be local to each host"
  done
  use "$programs/$hash"
  eval "\"\$program/bin/mobula\" start --check-only --name \"\$name\" --state-dir \"\$state\" $flags" || exit 1
  ;;
end)
  running >"$dir/.ending"
  while read -r pid head exe; do kill -TERM "$pid" 2>/dev/null; done <"$dir/.ending"
  left=$((grace * 5 + 25))
  while read -r pid head exe; do
    while [ -d "/proc/$pid" ] && [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" != "" ]; do
      [ $left -gt 0 ] || fail "process $pid has not ended within $grace s"
      left=$((left - 1))
      sleep 0.2
    done
  done <"$dir/.ending"
  rm -f "$dir/.ending"
  ;;
start)
  use "$programs/$hash"
  cd / || exit 1
  mkdir -p "$install/clusters" "$dir" || fail "cannot make $dir"
  set --
  if [ "$keyed" = yes ]; then
    key=$(mktemp "$install/.key-XXXXXX") || fail "cannot write in $install"
    trap 'rm -f "$key"' EXIT
    # The key arrives on standard input.
    cat >"$key" || fail "the key has not arrived"
    set -- --key "$key"
  fi
  rm -rf "$dir/.up"
  # The caller may have exited before the end. Processes of a start that is given up end with it.
  eval "exec \"\$program/bin/mobula\" start -o jsonl --name \"\$name\" --state-dir \"\$state\" \"\$@\" $flags" &
  starter=$!
  (
    left=$deadline
    while kill -0 $starter 2>/dev/null; do
      [ $left -gt 0 ] || { kill -TERM $starter; break; }
      left=$((left - 1))
      sleep 1
    done
  ) >/dev/null 2>&1 &
  wait $starter
  code=$?
  [ $code -lt 128 ] || fail "it was not ready within $deadline s, and was given up"
  # The program has printed the reason.
  [ $code = 0 ] || exit 1
  # Records the program and the settings of a successful start.
  ln -sfn "$programs/$hash" "$current" && echo "$settings" >"$dir/deployed" || fail "cannot write in $install"
  ;;
facts)
  tr -d '\n' <"$dir/head/head.json" || fail "the head has left no address"
  echo
  cat "$dir/$name.key" || fail "the head has left no key"
  ;;
stop)
  exe=$(running | tail -n 1 | cut -d ' ' -f 3-)
  if [ -z "$exe" ]; then echo nothing; exit 0; fi
  use "${exe%/bin/mobula}"
  [ -x "$exe" ] || exe=$current/bin/mobula
  "$exe" stop --name "$name" --state-dir "$state" --grace "$grace" || exit 1
  ;;
session)
  [ -x "$current/bin/mobula" ] || fail "cluster $name has no program here; bring it up first"
  use "$current"
  PATH=$current/bin:$PATH MOBULA_STATE_DIR=$state
  export PATH MOBULA_STATE_DIR
  umask 022
  eval "$line"
  ;;
esac
)sh";

constexpr std::size_t max_said = 64 << 10;

std::string last_line(const std::string& text) {
  const auto end = text.find_last_not_of(" \r\n");
  if (end == std::string::npos) return {};
  const auto begin = text.find_last_of("\r\n", end);
  auto line = text.substr(begin == std::string::npos ? 0 : begin + 1,
                          end - (begin == std::string::npos ? 0 : begin + 1) + 1);
  return line.starts_with("mobula: ") ? line.substr(8) : line;
}

// Classifies a failure of ssh itself.
Failure failure_of_ssh(const std::string& err) {
  for (const char* refusal :
       {"Permission denied", "Host key verification failed", "REMOTE HOST IDENTIFICATION",
        "Too many authentication failures", "bad permissions", "No such identity"}) {
    if (err.find(refusal) != std::string::npos) {
      const bool known = err.find("verification failed") == std::string::npos;
      const bool denied = err.find("Permission denied") != std::string::npos;
      return failure(
          ErrorCode::permission_denied,
          "ssh: " + last_line(err) +
              (!known
                   ? " is that host's key in the file ssh_known_hosts of the cluster file, else in "
                     "~/.ssh/known_hosts? `accept_new_hosts: true` there trusts hosts that are "
                     "seen first"
               : denied ? " are ssh_user and ssh_private_key of the cluster file right, and is "
                          "that key's public half in "
                          "~/.ssh/authorized_keys there?"
                        : ""));
    }
  }
  const auto why = last_line(err);
  return failure(ErrorCode::unavailable, why.starts_with("ssh: ") ? why : "ssh: " + why);
}

}  // namespace

std::vector<std::string> Remote::ssh(bool terminal) const {
  const Access& access = host_.access;
  const auto seconds = std::max<std::int64_t>(1, inventory_.connect_timeout / 1s);
  std::vector<std::string> words{
      "ssh", terminal ? "-t" : "-T",  "-o", fmt::format("ConnectTimeout={}", seconds),
      "-o",  "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"};
  const auto option = [&](std::string text) { words.insert(words.end(), {"-o", std::move(text)}); };
  if (!terminal) option("BatchMode=yes");
  if (!access.user.empty()) words.insert(words.end(), {"-l", access.user});
  if (access.port) words.insert(words.end(), {"-p", std::to_string(*access.port)});
  if (!access.private_key.empty()) {
    words.insert(words.end(), {"-i", access.private_key});
    option("IdentitiesOnly=yes");
  }
  if (!access.known_hosts.empty()) option("UserKnownHostsFile=\"" + access.known_hosts + "\"");
  if (access.accept_new_hosts) option("StrictHostKeyChecking=accept-new");
  words.insert(words.end(), {"--", host_.name});
  return words;
}

std::string Remote::script(const std::string& action,
                           std::map<std::string, std::string> variables) const {
  variables["action"] = action;
  variables["install"] = inventory_.install_dir;
  variables["state"] = inventory_.state_dir;
  variables["name"] = inventory_.cluster;
  variables["grace"] = std::to_string(inventory_.grace / 1s);
  std::string text;
  for (const auto& [name, value] : variables) text += name + "=" + quoted(value) + "\n";
  // The login shell only needs to support quotes.
  return "exec sh -c " + quoted(text + script_text);
}

Result<std::string> Remote::act(const std::string& action,
                                std::map<std::string, std::string> variables,
                                const std::string& input, Duration timeout) const {
  Command command;
  command.words = ssh(false);
  command.words.push_back(script(action, std::move(variables)));
  const auto outcome = run(command, input, timeout);
  if (!outcome) return outcome.error();
  if (outcome->timed_out) {
    return failure(ErrorCode::timed_out,
                   fmt::format("run '{}': no exit within {} s", action, timeout / 1s));
  }
  if (outcome->code == ssh_failed) return failure_of_ssh(outcome->err);
  if (outcome->code == 0) return outcome->out;
  const auto why = last_line(outcome->err);
  return failure(
      ErrorCode::resource_exhausted,
      why.empty() ? fmt::format("'{}' ended there with code {}", action, outcome->code) : why);
}

Result<Process> Remote::hold(const std::string& who, Duration timeout) const {
  Command command;
  command.words = ssh(false);
  command.words.push_back(script("hold", {{"who", who}, {"taken", std::to_string(taken)}}));
  command.pipes_input = command.pipes_output = command.pipes_errors = true;
  command.own_group = true;  // Ctrl-C first ends the action in progress
  auto process = Process::start(command);
  if (!process) return process.error();
  const Time until = monotonic_now() + timeout;
  std::string said, why;
  for (;;) {
    said += process->take_output();
    why += process->take_errors();
    if (said.find("held\n") != std::string::npos) return process;
    if (process->output() < 0 && process->errors() < 0) break;
    std::array<pollfd, 2> items{{{process->output(), POLLIN, 0}, {process->errors(), POLLIN, 0}}};
    const Duration left = until - monotonic_now();
    if (left <= Duration(0) || said.size() + why.size() > max_said) {
      return failure(ErrorCode::timed_out,
                     fmt::format("'hold' was not done within {} s", timeout / 1s));
    }
    ::poll(items.data(), items.size(), static_cast<int>(left / 1ms) + 1);
  }
  const auto code = process->wait(timeout);
  if (code == taken) return failure(ErrorCode::already_exists, last_line(why));
  if (code == ssh_failed) return failure_of_ssh(why);
  return failure(ErrorCode::resource_exhausted,
                 why.empty() ? "'hold' ended there" : last_line(why));
}

std::vector<std::string> Remote::session(const std::string& line, bool terminal) const {
  auto words = ssh(terminal);
  words.push_back(script("session", {{"line", line}}));
  return words;
}

}  // namespace mobula::internal::deploy
