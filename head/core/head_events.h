// Events of the head's core: every input that it receives, with field lists, so that a recorded run
// can be replayed with equal outputs. Plain structs. The order of alternatives is the number in
// recordings.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/model/jobs/principal.h"
#include "base/time.h"
#include "protocol/codec/codec.h"
#include "protocol/messages/agent_control.h"
#include "protocol/messages/tools.h"

namespace mobula::internal::head {

// Number of one connection, assigned by the shell and never reused. 0: no connection.
using LinkId = std::uint64_t;

// One row of the journal. Tables and keys: "nodes", "jobs", "actors", "groups", "submissions", and
// "tokens" by hexadecimal id; "events" by position in a ring; "meta" by "epoch"; "room" by "tried".
struct JournalRow {
  std::string table;
  std::string key;
  Bytes value;
  MOBULA_FIELDS(table, key, value);
  friend bool operator==(const JournalRow&, const JournalRow&) = default;
};

// The first input. It carries the only randomness: the ids of this epoch's slots are derived from
// `epoch_id`.
struct Started {
  std::vector<JournalRow> rows;
  Hash128 epoch_id;
  std::int64_t wall_ms = 0;  // milliseconds since 1970
  MOBULA_FIELDS(rows, epoch_id, wall_ms);
  friend bool operator==(const Started&, const Started&) = default;
};

struct ReceivedFromAgent {
  LinkId link = 0;
  Principal principal;  // derived from the key of the connection
  AgentToHead message;
  std::string user_id{};  // user id of that key in the AllowTable: "agent:CLUSTER", "token:ID"
  MOBULA_FIELDS(link, principal, message, user_id);
  friend bool operator==(const ReceivedFromAgent&, const ReceivedFromAgent&) = default;
};

struct AgentLinkLost {
  LinkId link = 0;
  MOBULA_FIELDS(link);
  friend bool operator==(const AgentLinkLost&, const AgentLinkLost&) = default;
};

// Reply to ProbeNode. `refused`: no process listens at the address. Otherwise a process listens, or
// no answer arrived.
struct NodeProbed {
  ProcessId incarnation;
  bool refused = false;
  MOBULA_FIELDS(incarnation, refused);
  friend bool operator==(const NodeProbed&, const NodeProbed&) = default;
};

struct ReceivedFromTool {
  LinkId link = 0;
  Principal principal;
  ToolRequest request;
  std::string user_id{};  // as in ReceivedFromAgent
  MOBULA_FIELDS(link, principal, request, user_id);
  friend bool operator==(const ReceivedFromTool&, const ReceivedFromTool&) = default;
};

// All batches through `upto` are durable.
struct Persisted {
  std::uint64_t upto = 0;
  MOBULA_FIELDS(upto);
  friend bool operator==(const Persisted&, const Persisted&) = default;
};

// The shell has dropped the batches through `upto` that were not reported as durable. Later batches
// may succeed.
struct PersistFailed {
  std::uint64_t upto = 0;
  std::string text;
  MOBULA_FIELDS(upto, text);
  friend bool operator==(const PersistFailed&, const PersistFailed&) = default;
};

// The process was stopped, or the machine slept, for `gap`. Silence of peers during that time does
// not count.
struct Paused {
  Duration gap{};
  MOBULA_FIELDS(gap);
  friend bool operator==(const Paused&, const Paused&) = default;
};

// The wall clock differs from the time that the core computes: it was set, or the machine slept.
struct ClockMoved {
  std::int64_t wall_ms = 0;
  MOBULA_FIELDS(wall_ms);
  friend bool operator==(const ClockMoved&, const ClockMoved&) = default;
};

// An event that the shell observed and that only the event log records.
struct Noticed {
  std::string kind;       // as in EventRow
  std::string principal;  // principal that caused it, if known
  std::string text;
  MOBULA_FIELDS(kind, principal, text);
  friend bool operator==(const Noticed&, const Noticed&) = default;
};

// All pending input was delivered, and a deadline may have passed. Only this event judges silence,
// so that a peer with unread messages is never declared silent.
struct Tick {
  MOBULA_FIELDS();
  friend bool operator==(const Tick&, const Tick&) = default;
};

using Event = std::variant<Started, ReceivedFromAgent, AgentLinkLost, NodeProbed, ReceivedFromTool,
                           Persisted, PersistFailed, Paused, Tick, Noticed, ClockMoved>;

}  // namespace mobula::internal::head
