// Cost of one decision of the scheduler, in isolation: full nodes of 8 GPUs, and more demand than
// fits, in classes of many lessees. A *return* removes one returned slot from the accounting. The
// plan after it grants the freed resources, which takes several *placements*. *both* is the return
// with its plan. In a *refusal*, a class restates its demand, and the plan finds no capacity.
// Prints a table over numbers of nodes, in processor time of the thread, which excludes other load.
// docs/roadmap.md lists the limits for comparison.
//
// mobula-bench-scheduler [NODES...]      default: 10 100 1000 10000
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/random.h"
#include "bench/measure/thread_time.h"
#include "scheduler/scheduler.h"

namespace mobula::internal::scheduler {
namespace {

constexpr int classes = 1000;
constexpr int lessees_of_class = 100;
constexpr int decisions = 20'000;

struct Costs {
  std::vector<double> all;  // µs
  double at(double part) {
    if (all.empty()) return 0;
    const auto which = static_cast<std::ptrdiff_t>(part * static_cast<double>(all.size() - 1));
    std::ranges::nth_element(all, all.begin() + which);
    return all[static_cast<std::size_t>(which)];
  }
};

NodeShape node_of_eight() {
  NodeShape shape;
  shape.resources.push_back({"CPU", {{Quantity::whole(64), {}, {}, 0}}});
  ResourceShape gpus{"GPU", {}};
  for (int i = 0; i < 8; ++i) {
    gpus.instances.push_back(
        {Quantity::whole(1), std::to_string(i), {"H100"}, std::int64_t{80} << 30});
  }
  shape.resources.push_back(std::move(gpus));
  shape.task_executors = 256;
  shape.actor_executors = 1000;
  return shape;
}

// Classes differ in their requests: a quarter of a GPU to eight GPUs, and CPUs.
DemandClass class_of(int number) {
  DemandClass made;
  made.id = ClassId::of(static_cast<std::uint64_t>(number) + 1);
  made.job = JobId::of(static_cast<std::uint64_t>(number % 10) + 1);
  made.program = ProgramId::of(1);
  static constexpr int units[] = {2500, 5000, 10'000, 10'000, 20'000, 40'000, 80'000};
  made.request.resources.set("GPU", Quantity::from_units(units[number % 7]));
  made.request.resources.set("CPU", Quantity::from_units(10'000 + number % 50));
  return made;
}

class Cluster {
 public:
  explicit Cluster(int nodes) : random_(7), scheduler_(SchedulerSettings{}) {
    for (int i = 0; i < nodes; ++i) add_node(i);
    for (int i = 0; i < classes; ++i) {
      for (int lessee = 0; lessee < lessees_of_class; ++lessee) state(i, lessee, 10);
    }
    plan_all();
  }

  std::size_t held() const { return slots_.size(); }

  struct Return {
    double release = 0, plan = 0;  // µs
    std::size_t placed = 0;
  };
  Return give_back() {
    const auto which = static_cast<std::size_t>(random_.below(slots_.size()));
    const SlotId slot = std::exchange(slots_[which], slots_.back());
    slots_.pop_back();
    const auto held = slots_.size();
    const double begin = thread_cpu_us();
    scheduler_.release(slot);
    const double released = thread_cpu_us();
    plan();
    return {released - begin, spent(released), slots_.size() - held};
  }
  double refusal() {
    const int number = static_cast<int>(random_.below(classes));
    const int lessee = static_cast<int>(random_.below(lessees_of_class));
    const double begin = thread_cpu_us();
    state(number, lessee, 10 + static_cast<int>(random_.below(5)));
    plan();
    return spent(begin);
  }
  // Removes a node with its slots, then adds a node that is filled.
  std::pair<double, double> exchange_node(int number) {
    const double begin = thread_cpu_us();
    scheduler_.remove_node(NodeId::of(static_cast<std::uint64_t>(number) + 1));
    plan();
    const double left = spent(begin);
    const double joined = thread_cpu_us();
    add_node(number);
    plan();
    const double join = spent(joined);
    std::erase_if(slots_, [&](SlotId slot) { return scheduler_.find_slot(slot) == nullptr; });
    return {left, join};
  }

 private:
  static double spent(double begin) { return thread_cpu_us() - begin; }
  void add_node(int number) {
    scheduler_.add_node(NodeId::of(static_cast<std::uint64_t>(number) + 1), node_of_eight());
  }
  void state(int number, int lessee, int more) {
    LesseeDemand demand;
    demand.lessee =
        ProcessId::of(static_cast<std::uint64_t>(number * lessees_of_class + lessee) + 1);
    demand.demand = class_of(number);
    demand.wanted_slots = more;
    demand.oldest_waiting = now_;
    scheduler_.set_demand(demand);
  }
  bool plan() {
    now_ = now_ + Duration(1us);  // too short for any slot to be recalled
    auto plan = scheduler_.plan(now_, [this] { return SlotId::of(++next_); });
    for (const auto& grant : plan.grants) slots_.push_back(grant.id);
    return !plan.grants.empty();
  }
  void plan_all() {
    while (plan()) {
    }
  }

  Random random_;
  Scheduler scheduler_;
  std::vector<SlotId> slots_;
  Time now_ = Time::from_ns(1'000'000'000);
  std::uint64_t next_ = 0;
};

// Resident memory of the process now.
std::int64_t resident_mib() {
  long pages = 0;
  if (auto* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * sysconf(_SC_PAGESIZE) / (1024 * 1024);
}

void measure(int nodes) {
  const double begin = thread_cpu_us();
  Cluster cluster(nodes);
  const double filled = (thread_cpu_us() - begin) / 1e6;
  const auto memory = resident_mib();
  Costs returns, placements, both, refusals, leaves, joins;
  for (int i = 0; i < decisions; ++i) {
    const auto [release, plan, placed] = cluster.give_back();
    returns.all.push_back(release);
    both.all.push_back(release + plan);
    if (placed > 0) placements.all.push_back(plan / static_cast<double>(placed));
    refusals.all.push_back(cluster.refusal());
  }
  for (int i = 0; i < std::min(nodes, 20); ++i) {
    const auto [left, joined] = cluster.exchange_node(i);
    leaves.all.push_back(left);
    joins.all.push_back(joined);
  }
  fmt::print(
      "{:>6} {:>7} {:>7.2f} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f} "
      "{:>8.1f} {:>7.0f} {:>7.0f} {:>6}\n",
      nodes, cluster.held(), filled, placements.at(0.5), placements.at(0.99), returns.at(0.5),
      returns.at(0.99), both.at(0.5), both.at(0.99), refusals.at(0.5), refusals.at(0.99),
      leaves.at(1), joins.at(1), memory);
  std::fflush(stdout);
}

}  // namespace
}  // namespace mobula::internal::scheduler

int main(int argc, char** argv) {
  std::vector<int> sizes{argv + 1 == argv + argc ? std::vector<int>{10, 100, 1000, 10'000}
                                                 : std::vector<int>{}};
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  fmt::print(
      "{} classes of {} lessees, each wanting 10 slots; µs, leave and join at worst, memory in "
      "MiB\n",
      mobula::internal::scheduler::classes, mobula::internal::scheduler::lessees_of_class);
  fmt::print(
      "{:>6} {:>7} {:>7} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>6}\n",
      "nodes", "slots", "fill s", "place50", "place99", "return50", "return99", "both50", "both99",
      "refuse50", "refuse99", "leave", "join", "memory");
  for (const int nodes : sizes) mobula::internal::scheduler::measure(nodes);
  return 0;
}
