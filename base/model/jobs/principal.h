// The identity of a process (principal), its endpoint, and the cause of its end.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"
#include "base/id.h"

namespace mobula::internal {

// Part of messages and tickets: append only.
enum class Role : std::uint8_t {
  unproven = 0,
  head = 1,
  agent = 2,
  driver_agent = 3,  // agent of one driver: holds the objects of its job, never slots
  driver = 4,
  executor = 5,
  observer = 6,  // reads state
  metrics = 7,
  operator_ = 8,  // tools of the cluster's operator: read and change
};
std::string_view to_string(Role role);

struct Principal {
  Role role = Role::unproven;
  std::string name;  // name of the key or user
  JobId job;         // drivers and executors
  MOBULA_FIELDS(role, name, job);
  friend bool operator==(const Principal&, const Principal&) = default;
};

struct Endpoint {
  ProcessId process;  // empty: no endpoint
  NodeId node;
  std::string local;       // ipc path, for peers on the same node
  std::string address;     // NAME:PORT, for peers on other nodes
  std::string public_key;  // CURVE, Z85
  MOBULA_FIELDS(process, node, local, address, public_key);
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// How a process or slot ended. Part of messages: append only.
enum class EndKind : std::uint8_t {
  exited = 0,     // by itself, with an exit code
  signalled = 1,  // by a signal
  out_of_memory = 2,
  retired = 3,   // as planned: max_calls, idle, returned
  intended = 4,  // exit_actor
  killed = 5,    // by the runtime, for the reason in `text`
  node_died = 6,
  start_failed = 7,   // the program could not be started; `text` is the message of the loader
  group_removed = 8,  // its placement group was removed
};

struct EndCause {
  EndKind kind = EndKind::exited;
  std::int32_t exit_code = 0;
  std::int32_t signal = 0;
  std::int64_t pid = 0;
  std::string text;        // human-readable cause
  std::string last_lines;  // last lines of its log
  MOBULA_FIELDS(kind, exit_code, signal, pid, text, last_lines);
  friend bool operator==(const EndCause&, const EndCause&) = default;
};
inline EndCause killed(std::string why) {
  EndCause cause;
  cause.kind = EndKind::killed;
  cause.text = std::move(why);
  return cause;
}
// "was killed by signal 9 (pid 12)".
std::string to_string(const EndCause& cause);

}  // namespace mobula::internal
