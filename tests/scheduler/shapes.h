// Short notation for nodes, requests, and a scheduler in the tests of this directory.
// Thread: owner.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"

namespace mobula::internal::scheduler {

inline constexpr std::int64_t gib = std::int64_t{1} << 30;

Quantity amount(double value);

struct Gpu {
  double total = 1;
  std::int64_t memory = 0;
  std::vector<std::string> types{};
  std::int64_t context = 0;
};
NodeShape node_shape(double cpus, const std::vector<Gpu>& gpus = {});
NodeShape node_with(double cpus, int gpus);

// Pairs of name and amount.
Request request(std::vector<std::pair<std::string, double>> amounts);
Request gpus(double count);
Request cpus(double count);

// A scheduler with its clock, ids, and classes. Verifies the ledgers after every plan.
class Bench {
 public:
  explicit Bench(SchedulerSettings settings = {}) : scheduler(settings) {}

  static NodeId node(std::uint64_t number) { return NodeId::of(number); }
  void add_node(std::uint64_t number, const NodeShape& shape) {
    scheduler.add_node(node(number), shape);
  }
  // One class per (job, request), numbered in the order of first use.
  DemandClass demand_class(std::uint64_t job, const Request& request);
  void want(std::uint64_t job, std::uint64_t lessee, const Request& request, std::int64_t slots,
            Preference preference = {});
  // Grants as much as fits, in as many plans as needed.
  Plan plan();
  Plan plan_after(Duration span);
  // Plans and returns the node numbers of the grants in order.
  std::vector<std::uint64_t> placed();
  // Demands one more slot for (job 1, lessee 1) and returns its device indices; empty: not granted.
  std::vector<std::uint32_t> devices(const Request& request);
  std::vector<SlotId> slots_of_job(std::uint64_t job) const;

  Scheduler scheduler;
  Time now = Time::from_ns(1'000'000'000);
  std::vector<Slot> granted;  // all grants, in order

 private:
  std::vector<DemandClass> classes_;
  std::map<ClassId, std::int64_t> wanted_;
  std::uint64_t next_slot_ = 0;
};

std::uint64_t number_of(NodeId node);

}  // namespace mobula::internal::scheduler
