#include "tune/core/schedulers/resource_distribution.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace mobula::internal::tune {
namespace {

constexpr std::int64_t one_unit = 10'000;

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

ProcessorAmounts sum_of(const ProcessorBundles& bundles) {
  ProcessorAmounts sum;
  for (const auto& [cpu, gpu] : bundles) {
    sum.cpu += cpu;
    sum.gpu += gpu;
  }
  return sum;
}

ProcessorAmounts first_of(const ProcessorBundles& bundles) {
  return bundles.empty() ? ProcessorAmounts() : bundles.front();
}

// One evaluation of the rules, with the increase that they use.
class Distribution {
 public:
  Distribution(const DistributionSettings& settings, const DistributionInput& input)
      : settings_(settings), input_(input), increase_(settings.increase_by) {
    if (increase_.empty() && settings_.add_bundles && !input_.base.empty())
      increase_ = input_.base.back();
    else if (increase_.empty())
      increase_ = first_of(input_.base).gpu != 0 ? ProcessorAmounts{0, one_unit}
                                                 : ProcessorAmounts{one_unit, 0};
    total_ = {input_.total.cpu - settings_.reserve.cpu, input_.total.gpu - settings_.reserve.gpu};
    free_ = total_;
    for (const ProcessorBundles& bundles : input_.trials) {
      const ProcessorAmounts used = sum_of(bundles);
      free_.cpu -= used.cpu;
      free_.gpu -= used.gpu;
    }
  }

  bool can_increase() const { return increase_.cpu > 0 || increase_.gpu > 0; }

  ProcessorBundles result() const {
    const ProcessorBundles added = settings_.to_top_job ? added_to_top_job() : added_evenly();
    return join(input_.base, added, false, -1);
  }

 private:
  std::int64_t multiplier(const ProcessorAmounts& amounts, std::int64_t most) const {
    std::int64_t count = 0;
    if (increase_.cpu != 0 && increase_.gpu != 0)
      count = std::min(floor_divide(amounts.cpu, increase_.cpu),
                       floor_divide(amounts.gpu, increase_.gpu));
    else if (increase_.gpu != 0)
      count = floor_divide(amounts.gpu, increase_.gpu);
    else
      count = floor_divide(amounts.cpu, increase_.cpu);
    return most > 0 && count > 0 ? std::min(most, count) : count;
  }

  ProcessorBundles added(const ProcessorBundles& bundles, const ProcessorBundles& base) const {
    if (settings_.add_bundles)
      return bundles.size() <= base.size()
                 ? ProcessorBundles()
                 : ProcessorBundles(bundles.begin() + static_cast<std::ptrdiff_t>(base.size()),
                                    bundles.end());
    const ProcessorAmounts now = first_of(bundles);
    const ProcessorAmounts before = first_of(base);
    return {{now.cpu - before.cpu, now.gpu - before.gpu}};
  }

  ProcessorBundles join(const ProcessorBundles& a, const ProcessorBundles& b, bool limited,
                        std::int64_t most) const {
    if (limited && settings_.increase_by_times > 0)
      most = most > 0 ? std::min<std::int64_t>(most, settings_.increase_by_times)
                      : settings_.increase_by_times;
    ProcessorBundles joined;
    if (settings_.add_bundles) {
      for (const auto* part : {&a, &b})
        for (const ProcessorAmounts& bundle : *part)
          if (!bundle.empty()) joined.push_back(bundle);
      if (most > 0 && joined.size() > static_cast<std::size_t>(most))
        joined.resize(static_cast<std::size_t>(most));
      return joined;
    }
    ProcessorAmounts sum{first_of(a).cpu + first_of(b).cpu, first_of(a).gpu + first_of(b).gpu};
    if (most > 0)
      sum = {std::min(sum.cpu, increase_.cpu * most), std::min(sum.gpu, increase_.gpu * most)};
    return {sum};
  }

  // Adds or removes as many increases as `free` has.
  ProcessorBundles modify(ProcessorBundles bundles, const ProcessorAmounts& free,
                          std::int64_t most_at_once, std::int64_t most) const {
    const std::int64_t count = multiplier(free, most_at_once);
    if (count == 0) return bundles;
    const std::int64_t size = std::abs(count);
    if (count > 0) {
      ProcessorBundles fresh;
      if (settings_.add_bundles)
        fresh.assign(static_cast<std::size_t>(size), increase_);
      else
        fresh.push_back({increase_.cpu * size, increase_.gpu * size});
      return join(bundles, fresh, true, most);
    }
    if (settings_.add_bundles) {
      bundles.resize(bundles.size() - std::min(bundles.size(), static_cast<std::size_t>(size)));
      return bundles;
    }
    const ProcessorAmounts present = first_of(bundles);
    return {{std::max<std::int64_t>(present.cpu - increase_.cpu * size, 0),
             std::max<std::int64_t>(present.gpu - increase_.gpu * size, 0)}};
  }

  ProcessorBundles added_evenly() const {
    const auto count = static_cast<std::int64_t>(input_.trials.size());
    const ProcessorAmounts base = sum_of(input_.base);
    ProcessorAmounts rest{total_.cpu - base.cpu * count, total_.gpu - base.gpu * count};
    std::vector<ProcessorBundles> shares(input_.trials.size());
    std::set<std::size_t> at_limit;
    std::int64_t rounds = 0;  // increases of the first trial
    for (std::size_t i = 0;
         at_limit.size() < shares.size() && rest.cpu >= increase_.cpu && rest.gpu >= increase_.gpu;
         ++i) {
      const std::size_t index = i % shares.size();
      const ProcessorBundles before = shares[index];
      shares[index] = modify(before, rest, 1, -1);
      const ProcessorAmounts gained = sum_of(added(shares[index], before));
      if (gained.empty())
        at_limit.insert(index);
      else if (index == 0)
        ++rounds;
      rest.cpu -= gained.cpu;
      rest.gpu -= gained.gpu;
    }
    return modify(added(input_.trials[input_.reporter], input_.base), free_, -1, rounds);
  }

  bool below_limit(const ProcessorBundles& bundles) const {
    const ProcessorBundles more = added(bundles, input_.base);
    const ProcessorAmounts gained = sum_of(more);
    auto below = [&](std::int64_t amount, std::int64_t step) {
      // In Ray, a resource that no added bundle has is below each limit.
      if (settings_.add_bundles && !more.empty() && amount == 0) return true;
      return settings_.increase_by_times <= 0 || amount < step * settings_.increase_by_times;
    };
    return below(gained.cpu, settings_.increase_by.cpu) ||
           below(gained.gpu, settings_.increase_by.gpu);
  }

  ProcessorBundles added_to_top_job() const {
    std::vector<std::size_t> order(input_.trials.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // A trial without a value sorts as Ray's infinity.
    auto key = [&](std::size_t i) {
      return -sign_of(settings_.mode) *
             input_.values[i].value_or(std::numeric_limits<double>::infinity());
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
    const auto found = std::find_if(order.begin(), order.end(),
                                    [&](std::size_t i) { return below_limit(input_.trials[i]); });
    const std::size_t best = found == order.end() ? order.front() : *found;
    ProcessorBundles own = added(input_.trials[input_.reporter], input_.base);
    if (input_.reporter != best && multiplier(free_, -1) >= 0) return own;
    return modify(std::move(own), free_, -1, -1);
  }

  const DistributionSettings& settings_;
  const DistributionInput& input_;
  ProcessorAmounts increase_, total_, free_;
};

ProcessorBundles processors_of(const ResourceBundles& bundles) {
  ProcessorBundles amounts;
  for (const ResourceBundle& bundle : bundles) {
    ProcessorAmounts& added = amounts.emplace_back();
    for (const auto& [name, amount] : bundle) {
      if (name == "CPU") added.cpu = amount;
      if (name == "GPU") added.gpu = amount;
    }
  }
  return amounts;
}

// The bundles with the amounts of processors, and the other resources of the base.
ResourceBundles bundles_of(const ProcessorBundles& amounts, const ResourceBundles& base) {
  ResourceBundles bundles;
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    ResourceBundle& bundle = bundles.emplace_back();
    if (amounts[i].cpu != 0) bundle.emplace_back("CPU", amounts[i].cpu);
    if (amounts[i].gpu != 0) bundle.emplace_back("GPU", amounts[i].gpu);
    if (i >= base.size()) continue;
    for (const auto& [name, amount] : base[i])
      if (name != "CPU" && name != "GPU") bundle.emplace_back(name, amount);
  }
  return bundles;
}

}  // namespace

Result<ProcessorBundles> distribute(const DistributionSettings& settings,
                                    const DistributionInput& input) {
  if (!settings.add_bundles && input.base.size() > 1)
    return failure(ErrorCode::invalid_argument, "DistributeResources: resources_per_trial has " +
                                                    std::to_string(input.base.size()) +
                                                    " bundles, expected 1; set add_bundles");
  const Distribution distribution(settings, input);
  if (!distribution.can_increase())
    return failure(ErrorCode::invalid_argument,
                   "DistributeResources: increase_by has no CPU and no GPU; add one of them");
  return distribution.result();
}

AllocationFunction make_distribution(const DistributionSettings& settings,
                                     std::function<ProcessorAmounts()> total) {
  auto values = std::make_shared<std::map<TrialNumber, double>>();  // shared by copies
  return [settings, total = std::move(total), values](
             const Report& report, const TrialTable& trials,
             const ResourceBundles& base) -> Result<std::optional<ResourceBundles>> {
    DistributionInput input{.total = total(), .base = processors_of(base)};
    for (const TrialState state :
         {TrialState::pending, TrialState::running, TrialState::pausing, TrialState::paused}) {
      for (const TrialNumber trial : trials.all(state)) {
        if (trial == report.trial) input.reporter = input.trials.size();
        input.trials.push_back(processors_of(trials.row(trial).resources));
        const auto value = values->find(trial);
        input.values.push_back(value == values->end() ? std::nullopt
                                                      : std::optional(value->second));
      }
    }
    const Result<ProcessorBundles> amounts = distribute(settings, input);
    if (report.value) (*values)[report.trial] = *report.value;
    if (!amounts) return amounts.error();
    return std::optional(bundles_of(*amounts, base));
  };
}

}  // namespace mobula::internal::tune
