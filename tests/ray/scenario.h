// A cluster of nodes for the scenarios of Ray's tests: each request is answered immediately with
// its node and instances, or waits.
// Thread: owner.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ray/recorded.h"
#include "scheduler/shapes.h"

namespace mobula::internal::ray {

using scheduler::request;
using Amounts = std::vector<std::pair<std::string, double>>;

// The grant of a request.
struct Got {
  std::uint64_t node = 0;  // 0: it waits
  std::vector<std::uint32_t> gpus;
  std::int32_t bundle = -1;
  friend bool operator==(const Got&, const Got&) = default;
};

class Cluster {
 public:
  // Nodes are numbered from 1.
  std::uint64_t add_node(const Amounts& totals, Labels labels = {});
  void kill_node(std::uint64_t node);

  // Each request has a unique number. Tasks and actors differ only in their limits.
  std::size_t submit(const Request& request, bool actor = false);
  std::size_t task(const Amounts& amounts) { return submit(request(amounts)); }
  std::size_t actor(const Amounts& amounts) { return submit(request(amounts), true); }
  void end(std::size_t number);
  void block(std::size_t number);  // in `get`
  bool reacquire_cpu(std::size_t number) { return scheduler_.reacquire_cpu(slots_.at(number)); }
  Got got(std::size_t number);
  bool runs(std::size_t number) { return got(number).node != 0; }
  // Returns true if a present node could ever serve it.
  bool feasible(const Request& request) const {
    return scheduler_.explain(request, ProgramId::of(1)).feasible;
  }

  GroupId group(GroupStrategy strategy, const std::vector<Amounts>& bundles);
  void remove(GroupId group);
  // The nodes of its bundles; 0: not placed.
  std::vector<std::uint64_t> locations(GroupId group);
  bool created(GroupId group);
  static Request inside(GroupId group, const Amounts& amounts, std::int32_t bundle = -1);

  double available(const std::string& name) const;
  scheduler::Scheduler& scheduler() { return scheduler_; }

 private:
  void settle();

  scheduler::Scheduler scheduler_{scheduler::SchedulerSettings{}};
  Time now_ = Time::from_ns(1'000'000'000);
  std::uint64_t nodes_ = 0, next_slot_ = 0, next_group_ = 0;
  std::vector<DemandClass> demands_;
  std::vector<bool> actors_;
  std::map<std::size_t, SlotId> slots_;
  std::map<std::size_t, Got> got_;
};

}  // namespace mobula::internal::ray
