// Open queries that were sent to several targets. Each collects replies until all targets have
// replied or ended, or until its deadline. A query that ends at its deadline names the silent
// targets.
// Thread: owner (one HeadCore).
// Not: messages. The owner sends the requests, merges the replies, and answers the source.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"

namespace mobula::internal::head {

// `Query` holds the source of a query and the replies so far.
template <class Target, class Query>
class FanOut {
 public:
  using Targets = std::map<Target, std::string>;  // each with a human-readable name

  struct Finished {
    Query query;
    Targets silent;  // had not replied at the deadline; empty if the query ended before
  };

  explicit FanOut(std::size_t max_open) : max_open_(max_open) {}

  // Returns the number of the next query. Numbers are never reused.
  std::uint64_t next_number() { return ++last_number_; }
  bool is_full() const { return open_.size() >= max_open_; }
  std::size_t size() const { return open_.size(); }

  // Adds a query and calls send(target) for each target, in ascending order. Without targets, the
  // query is finished at once.
  template <class Send>
  [[nodiscard]] std::optional<Finished> add(std::uint64_t number, Query query, Targets targets,
                                            Time deadline, Send send) {
    if (targets.empty()) return Finished{std::move(query), {}};
    std::vector<Target> receivers;  // a copy, because a failed send may remove a target
    for (const auto& [target, name] : targets) receivers.push_back(target);
    open_.emplace(number, Open{std::move(query), std::move(targets), deadline});
    for (const Target& each : receivers) send(each);
    return std::nullopt;
  }

  // Accepts the reply of a target, and returns the query to merge it into. Returns null if the
  // query is finished or does not wait for the target. finish_if_complete() must follow.
  Query* accept_reply(std::uint64_t number, const Target& target) {
    const auto at = open_.find(number);
    const bool awaited = at != open_.end() && at->second.missing.erase(target) != 0;
    return awaited ? &at->second.query : nullptr;
  }
  // Finishes the query if no reply is missing, or if the replies so far are `enough`.
  [[nodiscard]] std::optional<Finished> finish_if_complete(std::uint64_t number,
                                                           bool enough = false) {
    const auto at = open_.find(number);
    if (!enough && !at->second.missing.empty()) return std::nullopt;
    Finished finished{std::move(at->second.query), {}};
    open_.erase(at);
    return finished;
  }

  // The target will not reply any more. Returns the queries that waited only for it.
  [[nodiscard]] std::vector<Finished> remove_target(const Target& target) {
    return take_if([&](Open& open) {
      const bool awaited = open.missing.erase(target) != 0;
      return awaited && open.missing.empty();
    });
  }
  // Returns the queries whose deadline has passed.
  [[nodiscard]] std::vector<Finished> expire(Time now) {
    return take_if([&](Open& open) { return open.deadline <= now; });
  }
  std::optional<Time> next_deadline() const {
    std::optional<Time> next;
    for (const auto& [number, open] : open_)
      next = next ? std::min(*next, open.deadline) : open.deadline;
    return next;
  }

 private:
  struct Open {
    Query query;
    Targets missing;  // have not replied
    Time deadline;
  };

  template <class Ends>
  std::vector<Finished> take_if(Ends ends) {
    std::vector<Finished> finished;
    for (auto at = open_.begin(); at != open_.end();) {
      if (!ends(at->second)) {
        ++at;
        continue;
      }
      finished.push_back({std::move(at->second.query), std::move(at->second.missing)});
      at = open_.erase(at);
    }
    return finished;
  }

  const std::size_t max_open_;
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, Open> open_;
};

}  // namespace mobula::internal::head
