#include "bench/scheduler/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>

#include "base/random.h"
#include "scheduler/scheduler.h"

namespace mobula::internal::packing {
namespace {

constexpr int one = 10;

// ---- random cases ------------------------------------------------------------------------------

int draw_gpus(Random& random) {
  switch (random.below(8)) {
    case 0: return 0;
    case 1: return one;
    case 2: return 2 * one;
    default: return static_cast<int>(random.between(1, 9));
  }
}

Machine draw_machine(Random& random, bool in_use) {
  Machine machine{static_cast<int>(random.between(2, 8)) * one, {}};
  for (auto left = random.between(0, 3); left > 0; --left) {
    const bool partly = in_use && random.chance(400);
    machine.devices.push_back(partly ? static_cast<int>(random.between(0, 9)) : one);
  }
  return machine;
}

Case draw(std::uint64_t seed, bool in_use) {
  Random random(seed);
  Case made;
  for (auto left = random.between(1, 3); left > 0; --left) {
    made.machines.push_back(draw_machine(random, in_use));
  }
  for (auto left = random.between(2, 6); left > 0; --left) {
    const Shape amounts{static_cast<int>(random.between(0, 4)) * 5, draw_gpus(random)};
    if (amounts.cpus + amounts.gpus > 0) made.shapes.push_back(amounts);
  }
  made.strategy = static_cast<GroupStrategy>(random.below(4));
  return made;
}

// ---- trial accounting --------------------------------------------------------------------------

int free_devices(const Machine& machine) {
  return std::accumulate(machine.devices.begin(), machine.devices.end(), 0);
}

// Takes the first fully free devices. Returns false, with some devices taken, if too few are free.
bool take_whole(Machine& machine, int gpus) {
  int left = gpus / one;
  for (auto& device : machine.devices) {
    if (left > 0 && device == one) {
      device = 0;
      --left;
    }
  }
  return left == 0;
}

// Visits every way to give `ask` devices of the machine, with equal devices counted once.
void each_way(const Machine& machine, const Shape& amounts,
              const std::function<void(const Machine&)>& visit) {
  if (amounts.cpus > machine.cpus) return;
  Machine after = machine;
  after.cpus -= amounts.cpus;
  if (amounts.gpus == 0) return visit(after);
  if (amounts.gpus >= one) {
    if (take_whole(after, amounts.gpus)) visit(after);
    return;
  }
  std::set<int> tried;
  for (std::size_t i = 0; i < machine.devices.size(); ++i) {
    if (machine.devices[i] < amounts.gpus || !tried.insert(machine.devices[i]).second) continue;
    after.devices[i] -= amounts.gpus;
    visit(after);
    after.devices[i] += amounts.gpus;
  }
}

// Ray's allocator: the first fully free devices for whole devices, and for a fraction the device
// with the smallest remainder, the first of equals.
std::optional<Machine> take_as_ray(const Machine& machine, const Shape& amounts) {
  if (amounts.cpus > machine.cpus) return std::nullopt;
  Machine after = machine;
  after.cpus -= amounts.cpus;
  if (amounts.gpus >= one)
    return take_whole(after, amounts.gpus) ? std::optional(after) : std::nullopt;
  if (amounts.gpus == 0) return after;
  int* best = nullptr;
  for (auto& device : after.devices) {
    if (device >= amounts.gpus && (best == nullptr || device < *best)) best = &device;
  }
  if (best == nullptr) return std::nullopt;
  *best -= amounts.gpus;
  return after;
}

// ---- the scheduler -----------------------------------------------------------------------------

class Tried {
 public:
  explicit Tried(const Case& drawn) {
    for (std::size_t i = 0; i < drawn.machines.size(); ++i) {
      const auto& machine = drawn.machines[i];
      NodeShape shape;
      shape.resources.push_back({"CPU", {{tenths(machine.cpus), {}, {}, 0}}});
      if (!machine.devices.empty()) {
        ResourceShape devices{"GPU", {}};
        for (std::size_t j = 0; j < machine.devices.size(); ++j) {
          devices.instances.push_back({Quantity::whole(1), std::to_string(j), {}, 0});
        }
        shape.resources.push_back(std::move(devices));
      }
      shape.task_executors = shape.actor_executors = 1000;
      scheduler_.add_node(NodeId::of(i + 1), shape);
      book_what_is_used(NodeId::of(i + 1), machine);
    }
  }

  // Returns the tenths of devices held by the requests that were placed.
  int place(const std::vector<Shape>& shapes) {
    int held = 0;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      DemandClass demand;
      demand.id = ClassId::of(i + 1);
      demand.job = JobId::of(1);
      demand.program = ProgramId::of(1);
      demand.request = request_of(shapes[i]);
      scheduler_.set_demand({ProcessId::of(i + 1), demand, 1, now, {}});
      if (!plan().grants.empty()) held += shapes[i].gpus;
    }
    return held;
  }

  bool place_group(const Case& drawn) {
    GroupSpec spec;
    spec.id = GroupId::of(1);
    spec.job = JobId::of(1);
    spec.program = ProgramId::of(1);
    spec.strategy = drawn.strategy;
    for (const auto& amounts : drawn.shapes) spec.bundles.push_back(request_of(amounts));
    scheduler_.add_group(spec, {});
    plan();
    return scheduler_.groups().find(spec.id)->complete();
  }

 private:
  static constexpr Time now = Time::from_ns(1'000'000'000);

  static Quantity tenths(int count) {
    return Quantity::from_units(count * Quantity::units_per_one / one);
  }
  static Request request_of(const Shape& amounts) {
    Request request;
    request.resources.set("CPU", tenths(amounts.cpus));
    request.resources.set("GPU", tenths(amounts.gpus));
    return request;
  }
  void book_what_is_used(NodeId node, const Machine& machine) {
    scheduler::Slot slot;
    slot.id = SlotId::of(++slots_);
    slot.node = node;
    slot.job = JobId::of(2);
    slot.actor = ActorId::of(slots_);
    ResourceShare devices{"GPU", {}};
    for (std::size_t i = 0; i < machine.devices.size(); ++i) {
      const int used = one - machine.devices[i];
      if (used > 0) devices.shares.push_back({static_cast<std::uint32_t>(i), tenths(used), 0});
    }
    if (devices.shares.empty()) return;
    slot.allocation.resources.push_back(std::move(devices));
    scheduler_.restore(slot);
  }
  scheduler::Plan plan() {
    scheduler::Plan all;
    while (scheduler_.next_deadline() && *scheduler_.next_deadline() <= now) {
      auto made = scheduler_.plan(now, [this] { return SlotId::of(++slots_); });
      std::ranges::move(made.grants, std::back_inserter(all.grants));
    }
    return all;
  }

  scheduler::Scheduler scheduler_{scheduler::SchedulerSettings{}};
  std::uint64_t slots_ = 0;
};

// ---- the optimum -------------------------------------------------------------------------------

int most_from(std::vector<Machine>& machines, const std::vector<Shape>& shapes, std::size_t from) {
  if (from == shapes.size()) return 0;
  int most = most_from(machines, shapes, from + 1);
  for (auto& machine : machines) {
    const Machine before = machine;
    each_way(before, shapes[from], [&](const Machine& after) {
      machine = after;
      most = std::max(most, shapes[from].gpus + most_from(machines, shapes, from + 1));
    });
    machine = before;
  }
  return most;
}

bool fits_from(std::vector<Machine>& machines, const Case& drawn, std::size_t from,
               std::set<std::size_t>& taken) {
  if (from == drawn.shapes.size()) return true;
  const bool apart = drawn.strategy == GroupStrategy::strict_spread;
  const bool together = drawn.strategy == GroupStrategy::strict_pack;
  for (std::size_t i = 0; i < machines.size(); ++i) {
    if (apart && taken.contains(i)) continue;
    if (together && !taken.empty() && !taken.contains(i)) continue;
    const Machine before = machines[i];
    const bool fresh = taken.insert(i).second;
    bool found = false;
    each_way(before, drawn.shapes[from], [&](const Machine& after) {
      if (found) return;
      machines[i] = after;
      found = fits_from(machines, drawn, from + 1, taken);
    });
    machines[i] = before;
    if (found) return true;
    if (fresh) taken.erase(i);
  }
  return false;
}

// ---- Ray's rule for groups ---------------------------------------------------------------------

// Sum, over the resources, of the fraction of the free amount that is left. Negative if the request
// does not fit. The highest score wins.
double spare(const Machine& machine, const Shape& amounts) {
  double score = 0;
  for (const auto& [needed, left] :
       {std::pair(amounts.cpus, machine.cpus), std::pair(amounts.gpus, free_devices(machine))}) {
    if (needed == 0) continue;
    if (needed > left) return -1;
    score += static_cast<double>(left - needed) / left;
  }
  return score;
}

std::optional<std::size_t> best_machine(const std::vector<Machine>& machines, const Shape& amounts,
                                        const std::set<std::size_t>& among) {
  std::optional<std::size_t> best;
  for (const auto i : among) {
    const double score = spare(machines[i], amounts);
    if (score >= 0 && (!best || score > spare(machines[*best], amounts))) best = i;
  }
  return best;
}

void take_sums(Machine& machine, const Shape& amounts) {
  machine.cpus -= amounts.cpus;
  int left = amounts.gpus;
  for (auto& device : machine.devices) {
    const int taken = std::min(device, left);
    device -= taken;
    left -= taken;
  }
}

// Chooses the machine of each bundle by totals.
std::optional<std::vector<std::size_t>> choose_as_ray(const Case& drawn) {
  auto machines = drawn.machines;
  std::set<std::size_t> fresh;
  for (std::size_t i = 0; i < machines.size(); ++i) fresh.insert(i);
  std::vector<std::size_t> order(drawn.shapes.size()), chosen(drawn.shapes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return std::pair(drawn.shapes[a].gpus, drawn.shapes[a].cpus) >
           std::pair(drawn.shapes[b].gpus, drawn.shapes[b].cpus);
  });
  if (drawn.strategy == GroupStrategy::strict_pack) {
    Shape sum;
    for (const auto& amounts : drawn.shapes)
      sum = {sum.cpus + amounts.cpus, sum.gpus + amounts.gpus};
    const auto best = best_machine(machines, sum, fresh);
    if (!best) return std::nullopt;
    std::ranges::fill(chosen, *best);
    return chosen;
  }
  std::set<std::size_t> selected;
  std::vector<bool> done(drawn.shapes.size());
  for (const auto bundle : order) {
    if (done[bundle]) continue;
    auto best = best_machine(machines, drawn.shapes[bundle], fresh);
    if (!best && drawn.strategy == GroupStrategy::spread) {
      best = best_machine(machines, drawn.shapes[bundle], selected);
    }
    if (!best) return std::nullopt;
    const auto put = [&](std::size_t which) {
      take_sums(machines[*best], drawn.shapes[which]);
      chosen[which] = *best;
      done[which] = true;
    };
    put(bundle);
    if (drawn.strategy == GroupStrategy::pack) {
      for (const auto other : order) {
        if (!done[other] && spare(machines[*best], drawn.shapes[other]) >= 0) put(other);
      }
    }
    fresh.erase(*best);
    selected.insert(*best);
  }
  return chosen;
}

}  // namespace

Case draw_requests(std::uint64_t seed) { return draw(seed, false); }
Case draw_group(std::uint64_t seed) { return draw(seed, true); }

int in_use_by_scheduler(const Case& drawn) { return Tried(drawn).place(drawn.shapes); }

// Ray's hybrid policy: fills machines one after the other up to half, then balances them. Work
// without devices avoids machines with devices while possible.
int in_use_by_ray(const Case& drawn) {
  auto machines = drawn.machines;
  int used = 0;
  for (const auto& amounts : drawn.shapes) {
    using Rank = std::tuple<bool, double, std::size_t>;
    std::optional<Rank> best;
    for (std::size_t i = 0; i < machines.size(); ++i) {
      if (!take_as_ray(machines[i], amounts)) continue;
      const double part = 1 - static_cast<double>(machines[i].cpus) / drawn.machines[i].cpus;
      const Rank rank{amounts.gpus == 0 && !machines[i].devices.empty(), part < 0.5 ? 0 : part, i};
      best = best ? std::min(*best, rank) : rank;
    }
    if (!best) continue;
    auto& machine = machines[std::get<2>(*best)];
    machine = *take_as_ray(machine, amounts);
    used += amounts.gpus;
  }
  return used;
}

int most_in_use(const Case& drawn) {
  auto machines = drawn.machines;
  return most_from(machines, drawn.shapes, 0);
}

bool placed_by_scheduler(const Case& drawn) { return Tried(drawn).place_group(drawn); }

// After the choice by totals, each machine must satisfy the bundle by instances.
bool placed_by_ray(const Case& drawn) {
  const auto chosen = choose_as_ray(drawn);
  if (!chosen) return false;
  auto machines = drawn.machines;
  for (std::size_t i = 0; i < drawn.shapes.size(); ++i) {
    const auto after = take_as_ray(machines[(*chosen)[i]], drawn.shapes[i]);
    if (!after) return false;
    machines[(*chosen)[i]] = *after;
  }
  return true;
}

bool can_be_placed(const Case& drawn) {
  auto machines = drawn.machines;
  std::set<std::size_t> taken;
  return fits_from(machines, drawn, 0, taken);
}

namespace {

Quality measure(int cases, const std::function<std::tuple<int, int, int>(std::uint64_t)>& run) {
  Quality quality;
  for (int i = 1; i <= cases; ++i) {
    const auto seed = static_cast<std::uint64_t>(i);
    const auto [ours, rays, most] = run(seed);
    ++quality.cases;
    quality.best += ours == most;
    quality.best_of_ray += rays == most;
    quality.better_than_ray += ours > rays;
    if (ours < rays) {
      ++quality.worse_than_ray;
      quality.worse.push_back(seed);
    }
    quality.used += ours;
    quality.used_by_ray += rays;
    quality.most += most;
  }
  return quality;
}

}  // namespace

Quality measure_requests(int cases) {
  return measure(cases, [](std::uint64_t seed) {
    const auto drawn = draw_requests(seed);
    return std::tuple(in_use_by_scheduler(drawn), in_use_by_ray(drawn), most_in_use(drawn));
  });
}

Quality measure_groups(int cases) {
  return measure(cases, [](std::uint64_t seed) {
    const auto drawn = draw_group(seed);
    return std::tuple<int, int, int>(placed_by_scheduler(drawn), placed_by_ray(drawn),
                                     can_be_placed(drawn));
  });
}

std::string describe(const Quality& quality, const std::string& of) {
  const auto part = [](std::int64_t some, std::int64_t all) {
    return all == 0 ? 100.0 : 100.0 * static_cast<double>(some) / static_cast<double>(all);
  };
  return fmt::format(
      "{}: {} cases; optimum in {:.1f} % (Ray's rule: {:.1f} %); {:.1f} % of the possible (Ray's "
      "rule: {:.1f} %); better than Ray's rule in {}, worse in {}\n",
      of, quality.cases, part(quality.best, quality.cases),
      part(quality.best_of_ray, quality.cases), part(quality.used, quality.most),
      part(quality.used_by_ray, quality.most), quality.better_than_ray, quality.worse_than_ray);
}

}  // namespace mobula::internal::packing
