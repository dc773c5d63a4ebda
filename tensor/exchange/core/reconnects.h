// Decides when a process connects again to a peer whose connection broke. A broken connection does
// not prove that the peer has exited: the machine or the network may be overloaded.
// Thread: owner. Not: proofs of an exit, which end the attempts with `forget`.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/id.h"
#include "base/time.h"

namespace mobula::internal::transfer {

class Reconnects {
 public:
  static constexpr Duration reconnect_timeout = 60s;  // without a connection, then the peer is lost
  static constexpr Duration backoff_initial = 20ms;
  static constexpr Duration backoff_max = 1s;

  // A connection or an attempt ended. Returns false if the time for attempts is over.
  bool ended(ProcessId peer, Time now) {
    const auto [at, fresh] = rows_.try_emplace(peer, Row{now, {}, backoff_initial});
    Row& row = at->second;
    if (now - row.since >= reconnect_timeout) {
      rows_.erase(at);
      return false;
    }
    row.due = now + row.backoff;
    row.backoff = std::min(2 * row.backoff, backoff_max);
    return true;
  }
  // The peer is connected, has exited, or is not needed.
  void forget(ProcessId peer) { rows_.erase(peer); }
  bool waits_for(ProcessId peer) const { return rows_.contains(peer); }

  std::optional<Time> next_deadline() const {
    std::optional<Time> first;
    for (const auto& [peer, row] : rows_) {
      if (row.due && (!first || *row.due < *first)) first = row.due;
    }
    return first;
  }
  // Peers to connect to now.
  std::vector<ProcessId> take_due(Time now) {
    std::vector<ProcessId> peers;
    for (auto& [peer, row] : rows_) {
      if (!row.due || *row.due > now) continue;
      row.due.reset();
      peers.push_back(peer);
    }
    return peers;
  }

 private:
  struct Row {
    Time since;
    std::optional<Time> due;  // time of the next attempt; empty: one is in progress
    Duration backoff{};
  };
  std::map<ProcessId, Row> rows_;
};

}  // namespace mobula::internal::transfer
