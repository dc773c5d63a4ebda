// Fairness between greedy jobs, in virtual time, by the scheduler alone. Each job always requests
// more than exists, and its tasks end after a while. Like a driver, a lessee keeps a slot for its
// next task until the head recalls it. Prints the time average of each job's dominant share divided
// by its weight, and Jain's index of these values: 1 is fair, and 1/n means that one job has
// everything. Also prints how long a request for a whole node waits next to a stream of small
// requests.
//
//   mobula-bench-fairness
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "scheduler/scheduler.h"

namespace mobula::internal::scheduler {
namespace {

constexpr Duration step = 10ms;

struct Greedy {
  std::string name;
  Request request;
  std::int32_t weight = 1;
  Duration joins{};
  Duration task = 200ms;  // mean; a task takes between 0.5 and 1.5 times as long
};

NodeShape node_of_eight() {
  NodeShape shape;
  shape.resources.push_back({"CPU", {{Quantity::whole(64), {}, {}, 0}}});
  ResourceShape gpus{"GPU", {}};
  for (int i = 0; i < 8; ++i) {
    gpus.instances.push_back({Quantity::whole(1), std::to_string(i), {}, 0});
  }
  shape.resources.push_back(std::move(gpus));
  shape.task_executors = 256;
  shape.actor_executors = 256;
  return shape;
}

Request request_for(double gpus, double cpus) {
  Request request;
  request.resources.set("GPU", Quantity::from_units(static_cast<std::int64_t>(gpus * 10'000)));
  request.resources.set("CPU", Quantity::from_units(static_cast<std::int64_t>(cpus * 10'000)));
  return request;
}

class Cluster {
 public:
  Cluster(int nodes, const std::vector<Greedy>& jobs)
      : jobs_(jobs), scheduler_(SchedulerSettings{}) {
    for (int i = 0; i < nodes; ++i) {
      scheduler_.add_node(NodeId::of(static_cast<std::uint64_t>(i) + 1), node_of_eight());
    }
    totals_["GPU"] = Quantity::whole(8 * nodes);
    totals_["CPU"] = Quantity::whole(64 * nodes);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      JobTerms terms;
      terms.weight = jobs[i].weight;
      scheduler_.set_job_terms(job(i), terms);
    }
  }

  // Job 0 requests a whole node once, at `at`.
  void request_node_at(Duration at) { large_at_ = start + at; }
  Duration large_waited() const { return large_waited_; }

  void run(Duration span, Duration measured_from) {
    sums_.assign(jobs_.size(), 0);
    for (; now_ < start + span; now_ = now_ + step) {
      for (std::size_t i = 0; i < jobs_.size(); ++i) {
        if (now_ == start + jobs_[i].joins) want(i, jobs_[i].request, 1000);
      }
      if (large_at_ && now_ == *large_at_) want(0, request_for(8, 8), 1, 100);
      end_tasks();
      plan();
      if (now_ - start < measured_from) continue;
      for (std::size_t i = 0; i < jobs_.size(); ++i) sums_[i] += share(i);
      ++samples_;
    }
  }

  double average_share(std::size_t i) const { return sums_[i] / samples_; }
  double jain() const {
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const double each = average_share(i) / jobs_[i].weight;
      sum += each;
      squares += each * each;
    }
    return sum * sum / (static_cast<double>(jobs_.size()) * squares);
  }

 private:
  static constexpr Time start = Time::from_ns(1'000'000'000);
  static JobId job(std::size_t i) { return JobId::of(i + 1); }

  void want(std::size_t i, const Request& request, std::int64_t slots, std::uint64_t kind = 0) {
    LesseeDemand demand;
    demand.lessee = ProcessId::of(i + 1);
    demand.demand.id = ClassId::of(kind + i + 1);
    demand.demand.job = job(i);
    demand.demand.program = ProgramId::of(1);
    demand.demand.request = request;
    demand.wanted_slots = slots;
    demand.oldest_waiting = now_;
    scheduler_.set_demand(demand);
  }
  // The lessee keeps the slot for its next task unless the slot was recalled.
  void end_tasks() {
    std::vector<SlotId> back;
    for (auto& [id, ends] : ends_) {
      if (ends > now_) continue;
      if (recalled_.contains(id)) {
        back.push_back(id);
      } else {
        ends = next_end(scheduler_.find_slot(id)->job);
      }
    }
    for (const auto id : back) {
      ends_.erase(id);
      recalled_.erase(id);
      scheduler_.release(id);
    }
  }
  Time next_end(JobId of) {
    const auto& task = jobs_[of.bits().low - 1].task;
    return now_ + random_.between(task / 2, task * 3 / 2);
  }
  void plan() {
    const auto plan = scheduler_.plan(now_, [this] { return SlotId::of(++next_); });
    for (const auto& grant : plan.grants) {
      ends_[grant.id] = next_end(grant.job);
      if (grant.class_id.bits().low > 100 && large_waited_ < Duration(0))
        large_waited_ = now_ - *large_at_;
    }
    for (const auto& each : plan.recalls) recalled_.insert(each.slot);
  }
  double share(std::size_t i) const {
    double most = 0;
    const auto held = scheduler_.held_by(job(i));
    for (const auto& [name, amount] : held.amounts()) {
      most = std::max(most, amount.to_double() / totals_.at(name).to_double());
    }
    return most;
  }

  std::vector<Greedy> jobs_;
  Scheduler scheduler_;
  Random random_{11};
  Time now_ = start;
  std::map<std::string, Quantity> totals_;
  std::map<SlotId, Time> ends_;
  std::set<SlotId> recalled_;
  std::vector<double> sums_;
  double samples_ = 0;
  std::uint64_t next_ = 0;
  std::optional<Time> large_at_;
  Duration large_waited_{-1};
};

void measure(const std::string& what, const std::vector<Greedy>& jobs) {
  Cluster cluster(4, jobs);
  cluster.run(120s, 20s);
  std::string shares;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    shares += fmt::format("{} (weight {}) {:.3f}  ", jobs[i].name, jobs[i].weight,
                          cluster.average_share(i));
  }
  fmt::print("{:<44} Jain {:.4f}   {}\n", what, cluster.jain(), shares);
}

void measure_all() {
  fmt::print("4 nodes of 8 GPUs and 64 CPUs, 100 s after 20 s, shares of the dominant resource\n");
  measure("two alike, one 10 s later",
          {{"a", request_for(1, 1)}, {"b", request_for(1, 1), 1, 10s}});
  measure("GPUs against CPUs", {{"gpus", request_for(1, 1)}, {"cpus", request_for(0, 2)}});
  measure("quarters against pairs",
          {{"quarters", request_for(0.25, 1)}, {"pairs", request_for(2, 1), 1, 10s}});
  measure("weights 1 and 3", {{"a", request_for(1, 1)}, {"b", request_for(1, 1), 3, 10s}});
  measure("four, long and short tasks", {{"a", request_for(1, 1), 1, {}, 2s},
                                         {"b", request_for(1, 1), 1, 5s, 100ms},
                                         {"c", request_for(0.5, 1), 1, 10s, 500ms},
                                         {"d", request_for(2, 4), 1, 15s, 1s}});
  Cluster stream(1, {{"a", request_for(0, 1)}, {"small", request_for(0.5, 1)}});
  stream.request_node_at(30s);
  stream.run(120s, 20s);
  fmt::print("a request for 8 GPUs next to a stream of halves waited {:.2f} s\n",
             std::chrono::duration<double>(stream.large_waited()).count());
}

}  // namespace
}  // namespace mobula::internal::scheduler

int main() {
  mobula::internal::scheduler::measure_all();
  return 0;
}
