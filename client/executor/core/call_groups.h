// Counts the queued and running calls of each concurrency group of an actor. Group 0 has the calls
// without a group, and all calls of a task executor. Calls outside the order belong to no group.
// Thread: owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/model/task.h"

namespace mobula::internal::executor {

class CallGroups {
 public:
  static constexpr std::uint32_t no_group = std::numeric_limits<std::uint32_t>::max();

  CallGroups() : rows_(1) {}

  void configure(std::int32_t max_concurrency, const std::vector<ConcurrencyGroup>& groups) {
    rows_.assign(1, Row{{}, limit_of(max_concurrency)});
    for (const auto& each : groups) rows_.push_back({each.name, limit_of(each.max_concurrency)});
  }
  std::optional<std::uint32_t> find(const std::string& name) const {
    for (std::uint32_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].name == name) return i;
    }
    return std::nullopt;
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(rows_.size()); }
  void queued(std::uint32_t group) { count(group, &Row::waiting, 1); }
  void unqueued(std::uint32_t group) { count(group, &Row::waiting, -1); }
  void started(std::uint32_t group) { count(group, &Row::running, 1); }
  void ended(std::uint32_t group) { count(group, &Row::running, -1); }
  void clear_queue() {
    for (Row& row : rows_) row.waiting = 0;
  }

  bool is_open(std::uint32_t group) const {
    return group != no_group && rows_[group].running < rows_[group].limit;
  }
  // True if a call is queued whose group may start one.
  bool may_start() const {
    return std::ranges::any_of(
        rows_, [](const Row& row) { return row.waiting > 0 && row.running < row.limit; });
  }

 private:
  struct Row {
    std::string name;
    std::int64_t limit = 1;
    std::int64_t waiting = 0;
    std::int64_t running = 0;
  };

  static std::int64_t limit_of(std::int32_t given) { return std::max(1, given); }
  void count(std::uint32_t group, std::int64_t Row::*what, std::int64_t change) {
    if (group != no_group) rows_[group].*what += change;
  }

  std::vector<Row> rows_;
};

}  // namespace mobula::internal::executor
