// Whom this process gets tensors from, and since when it has not: a connection that carries nothing is closed after a
// while, and made again when something is wanted. Who receives decides it, since nothing is said over that connection
// but for what it wants: it says so, says nothing more, and closes when the holder has said so, too. What is wanted
// meanwhile waits for that. Not thread-safe: a part of RegionExchange.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "transfer/core/region_steps.h"

namespace mobula::internal::transfer {

class RegionTies {
 public:
  explicit RegionTies(RegionContext& context) : context_(context) {}

  // It answers to partings; others' connections stay.
  void may_part(ProcessId holder) { may_.insert(holder); }
  // Something is said or done for what is wanted from there.
  void used(ProcessId holder);
  // Nothing may be said to it before parted().
  bool is_parting(ProcessId holder) const;
  // False for what answers nothing.
  bool parted(ProcessId holder, std::uint64_t round);
  void gone(ProcessId holder);
  // `is_busy`: something of there is wanted, or given on.
  void tick(const std::function<bool(ProcessId)>& is_busy);
  std::optional<Time> next_deadline() const;
  std::size_t size() const { return ties_.size(); }

 private:
  struct Tie {
    Time used{};
    std::uint64_t parting = 0;  // its round
  };
  std::optional<Time> due(ProcessId holder, const Tie& tie) const;

  RegionContext& context_;
  std::map<ProcessId, Tie> ties_;
  std::set<ProcessId> may_;
  std::uint64_t last_round_ = 0;
};

}  // namespace mobula::internal::transfer
