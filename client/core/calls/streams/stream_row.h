// State of one call stream at its caller: calls in flight, order, and broken connections.
// Thread: owner. Owner: CallStreams.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/containers/table.h"
#include "base/model/task.h"
#include "base/time.h"
#include "protocol/messages/call_stream.h"
#include "protocol/session/session.h"

namespace mobula::internal::client {

// Calls in flight from number `first` that the executor returns. No further call of the group is
// sent until all are back.
struct ReturningCalls {
  std::optional<std::string> group;  // empty: all groups
  std::uint64_t first = 0;

  bool includes(const CallForm& form) const {
    return !form.beside && (!group || *group == form.group);
  }
};

// The caller's end of one call stream.
struct StreamRow {
  Endpoint endpoint;
  SlotId slot;    // set for a stream of tasks
  ActorId actor;  // set for a stream of an actor
  Session<CallerMessage, ExecutorMessage> session;
  std::uint64_t next_number = 1;
  Table<std::uint64_t, TaskId> in_flight;  // calls by number, oldest first
  std::optional<EndCause> ending;  // end of the executor, accepted once the stream is drained
  Time drain_until;
  bool retires = false;
  bool ended = false;                // the connection is drained and closed
  std::optional<Time> reconnect_at;  // the connection broke while replies were due
  Duration reconnect_wait = 50ms;
  bool taking_back = false;
  bool one_at_a_time = false;             // queued calls returned: none queues there until a reply
  std::uint64_t round = 1;                // see PushCall
  std::vector<ReturningCalls> returning;  // calls that the executor returns
  std::size_t capacity = unlimited;       // limit of calls in flight, set after a rejection
  bool measure_capacity = false;          // sets `capacity` when all have returned
  std::optional<Time> try_at;      // the executor rejected a single call: none is sent until then
  std::optional<Time> give_up_at;  // deadline for a broken connection while replies are due
  std::string rejection;           // why the executor rejected the last connection
  std::optional<Time> armed;       // see DeadlineHeap
  static constexpr std::size_t unlimited = ~std::size_t{0};
  Time last_reply;

  std::optional<Time> deadline() const {
    std::optional<Time> first = session.next_deadline();
    const auto consider = [&first](Time at) {
      if (!first || at < *first) first = at;
    };
    if (ending) consider(drain_until);
    if (reconnect_at) consider(*reconnect_at);
    if (try_at) consider(*try_at);
    if (give_up_at) consider(*give_up_at);
    return first;
  }
  // Starts a new round: the executor returns the calls of the group that it received after the
  // refused one, and those still on their way. Without a group, those of all groups.
  void begin_round(std::uint64_t refused, std::optional<std::string> group) {
    ++round;
    const auto same = std::ranges::find(returning, group, &ReturningCalls::group);
    if (same == returning.end()) {
      returning.push_back({std::move(group), refused});
    } else {
      same->first = std::min(same->first, refused);
    }
  }
  // True if a call of this form must wait until earlier ones have returned.
  bool awaits_returns(const CallForm& form) const {
    return std::ranges::any_of(returning, [&](const auto& each) { return each.includes(form); });
  }
};

}  // namespace mobula::internal::client
