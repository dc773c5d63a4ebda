// What the head's core is told: every input it ever gets, with field lists, so that a recorded run
// can be replayed to the same outputs. Plain structs; the order of alternatives is the number in
// recordings.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/time.h"
#include "model/principal.h"
#include "protocol/agent_control.h"
#include "protocol/codec.h"
#include "protocol/tools.h"

namespace mobula::internal::head {

// The shell's number of one connection, given once and never again. 0: none.
using LinkId = std::uint64_t;

// One row of the journal. Tables: "meta", "nodes", "jobs", "actors", "groups", "submissions", "tokens", "room", with ids
// in hex as keys, and "events", with places in a ring.
struct JournalRow {
  std::string table;
  std::string key;
  Bytes value;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("table", &JournalRow::table), field("key", &JournalRow::key),
                 field("value", &JournalRow::value));
  }
  friend bool operator==(const JournalRow&, const JournalRow&) = default;
};

// The first input. Randomness comes in here: ids of this epoch's slots are derived from `epoch_id`.
struct Started {
  std::vector<JournalRow> rows;
  Hash128 epoch_id;
  std::int64_t wall_ms = 0;  // wall clock
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("rows", &Started::rows), field("epoch_id", &Started::epoch_id),
                 field("wall_ms", &Started::wall_ms));
  }
  friend bool operator==(const Started&, const Started&) = default;
};

struct AgentSaid {
  LinkId link = 0;
  Principal principal;  // as the connection's key says
  AgentToHead message;
  std::string user_id{};  // what the table of keys calls that key: "agent:CLUSTER", "token:ID"
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("link", &AgentSaid::link), field("principal", &AgentSaid::principal),
                 field("message", &AgentSaid::message), field("user_id", &AgentSaid::user_id));
  }
  friend bool operator==(const AgentSaid&, const AgentSaid&) = default;
};

struct AgentLinkLost {
  LinkId link = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("link", &AgentLinkLost::link));
  }
  friend bool operator==(const AgentLinkLost&, const AgentLinkLost&) = default;
};

// Answer to ProbeNode. `refused`: nobody listens there. Not refused: somebody does, or no answer
// came.
struct NodeProbed {
  ProcessId incarnation;
  bool refused = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("incarnation", &NodeProbed::incarnation),
                 field("refused", &NodeProbed::refused));
  }
  friend bool operator==(const NodeProbed&, const NodeProbed&) = default;
};

struct ToolSaid {
  LinkId link = 0;
  Principal principal;
  ToolRequest request;
  std::string user_id{};  // as of AgentSaid
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("link", &ToolSaid::link), field("principal", &ToolSaid::principal),
                 field("request", &ToolSaid::request), field("user_id", &ToolSaid::user_id));
  }
  friend bool operator==(const ToolSaid&, const ToolSaid&) = default;
};

// All batches up to and including `upto` are durable.
struct Persisted {
  std::uint64_t upto = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("upto", &Persisted::upto));
  }
  friend bool operator==(const Persisted&, const Persisted&) = default;
};

// No batch up to and including `upto` that was not reported durable before will be: the shell has
// dropped them. Batches may be persisted again after that.
struct PersistFailed {
  std::uint64_t upto = 0;
  std::string text;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("upto", &PersistFailed::upto), field("text", &PersistFailed::text));
  }
  friend bool operator==(const PersistFailed&, const PersistFailed&) = default;
};

// The process stood still (or the machine slept) for `gap`: peers are not to blame for it.
struct Paused {
  Duration gap{};
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("gap", &Paused::gap));
  }
  friend bool operator==(const Paused&, const Paused&) = default;
};

// The wall clock says something else than it would by the core's count of time: it was set, or the
// machine slept.
struct ClockMoved {
  std::int64_t wall_ms = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("wall_ms", &ClockMoved::wall_ms));
  }
  friend bool operator==(const ClockMoved&, const ClockMoved&) = default;
};

// Something that the shell has seen and the core has no part in, for the record of events.
struct Noticed {
  std::string kind;       // as of EventRow
  std::string principal;  // whose doing it is, as far as that is known
  std::string text;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("kind", &Noticed::kind), field("principal", &Noticed::principal),
                 field("text", &Noticed::text));
  }
  friend bool operator==(const Noticed&, const Noticed&) = default;
};

// All input there was has been given, and a deadline may have passed. Silence is judged here alone,
// so that a peer is never blamed for what waits unread.
struct Tick {
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit();
  }
  friend bool operator==(const Tick&, const Tick&) = default;
};

using Event = std::variant<Started, AgentSaid, AgentLinkLost, NodeProbed, ToolSaid, Persisted,
                           PersistFailed, Paused, Tick, Noticed, ClockMoved>;

}  // namespace mobula::internal::head
