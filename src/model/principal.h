// Who somebody is, and where a process can be reached. Plain values.
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"
#include "base/id.h"

namespace mobula::internal {

// Travels in messages and tickets: append only.
enum class Role : std::uint8_t {
  unproven = 0,
  head = 1,
  agent = 2,
  driver_agent = 3,  // a driver's own agent: holds its job's objects, never slots
  driver = 4,
  executor = 5,
  observer = 6,  // reads state
  metrics = 7,
  operator_ = 8,  // the owner's tools: reads and changes
};
std::string_view to_string(Role role);

struct Principal {
  Role role = Role::unproven;
  std::string name;  // key name or user
  JobId job;         // drivers and executors
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("role", &Principal::role), field("name", &Principal::name),
                 field("job", &Principal::job));
  }
  friend bool operator==(const Principal&, const Principal&) = default;
};

struct Endpoint {
  ProcessId process;  // empty: no such endpoint
  NodeId node;
  std::string local;       // ipc path, for peers of the same node
  std::string address;     // NAME:PORT, for peers of other nodes
  std::string public_key;  // CURVE, Z85
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("process", &Endpoint::process), field("node", &Endpoint::node),
                 field("local", &Endpoint::local), field("address", &Endpoint::address),
                 field("public_key", &Endpoint::public_key));
  }
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// How a process or slot ended. Travels in messages: append only.
enum class EndKind : std::uint8_t {
  exited = 0,     // exit code
  signalled = 1,  // signal
  out_of_memory = 2,
  retired = 3,   // planned: max_calls, idle, returned
  intended = 4,  // exit_actor
  killed = 5,    // by the runtime for a reason in `text`
  node_died = 6,
  start_failed = 7,  // the program could not be started; text is the loader's message
  group_removed = 8,  // its placement group was
};

struct EndCause {
  EndKind kind = EndKind::exited;
  std::int32_t exit_code = 0;
  std::int32_t signal = 0;
  std::int64_t pid = 0;
  std::string text;        // who ended it and why, for people
  std::string last_lines;  // of its log
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("kind", &EndCause::kind), field("exit_code", &EndCause::exit_code),
                 field("signal", &EndCause::signal), field("pid", &EndCause::pid),
                 field("text", &EndCause::text), field("last_lines", &EndCause::last_lines));
  }
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
