// Decisions of the head as one state machine: membership, placement, jobs, actors, names, and the
// state that must be durable before it is reported. Equal inputs give equal outputs.
// Thread: owner (one shell). Not: clock, thread, I/O, or an order that depends on hashing.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "head/core/head_commands.h"
#include "head/core/head_events.h"
#include "head/core/head_options.h"
#include "head/core/view/head_view.h"

namespace mobula::internal::head {

struct HeadTables;

// Messages and rows of messages that the core rejected since its start.
struct RejectedCounts {
  std::uint64_t requests = 0;  // beyond the permissions of their key
  std::uint64_t class_use_rows = 0;
};

// The first event is Started. Until the new epoch is durable (Persisted for its batch), agents get
// no reply and tools must retry. If the journal names nodes, the head then *recovers*: it
// grants slots on nodes that have registered, declares no deaths, and restarts no actors. Recovery
// ends when all of them have registered, or after `recovery`.
class HeadCore {
 public:
  using Options = HeadOptions;
  using Event = head::Event;
  using Command = head::Command;

  explicit HeadCore(HeadOptions options = {});
  ~HeadCore();
  HeadCore(HeadCore&&) noexcept;
  HeadCore& operator=(HeadCore&&) noexcept;

  // Handles one input and appends commands. `now` never decreases.
  void step(Time now, Event event, std::vector<Command>& out);
  // Time of the next Tick if no other event precedes it.
  std::optional<Time> next_deadline() const;

  std::uint64_t epoch() const;
  bool recovering() const;
  RejectedCounts rejected() const;
  HeadView view() const;
  // Whether an unfinished submitted job needs the files with this name.
  bool needs_files(const std::string& name) const;
  // Returns the principal of a token's key, or of the machine that joined with one.
  // permission_denied states the reason: expired, revoked, or unknown.
  Result<Principal> principal_of(const std::string& public_key, Time now) const;
  // Wall clock as the core computes it. ClockMoved corrects it.
  std::int64_t wall_ms(Time now) const;
  // Rows of actors, groups, jobs, nodes, processes, slots, and demands that walks over tables may
  // have visited. For tests: events and deadlines of some rows must not depend on the number of
  // others.
  std::uint64_t rows_walked() const;
  // Recomputes the scheduler's accounting from the slots. The error names the differences.
  Result<void> verify() const;

 private:
  std::unique_ptr<HeadTables> tables_;
};

}  // namespace mobula::internal::head
