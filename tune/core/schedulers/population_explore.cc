#include "tune/core/schedulers/population_explore.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "tune/core/numpy_arithmetic.h"

namespace mobula::internal::tune {
namespace {

Failure mutation_failure(std::string_view name, std::string_view fault) {
  return failure(ErrorCode::invalid_argument,
                 fmt::format("hyperparam_mutations '{}': {}", name, fault));
}

// The type of the old value decides that of the new one.
Value of_same_kind(const Value& value, const Value& like) {
  if (like.is_truth()) return value.truth();
  if (!like.is_integer() || value.is_integer()) return value;
  return static_cast<std::int64_t>(round_half_even(value.number()));
}

Value move_to_neighbor(const Domain& list, const Value& present, double resample_probability,
                       PythonRandom& random) {
  const auto at = std::find(list.values.begin(), list.values.end(), present);
  const bool resample = random.unit() < resample_probability || at == list.values.end();
  if (resample) return list.values[random.index(list.values.size())];
  const bool forwards = random.index(2) == 1;
  if (forwards) return at + 1 == list.values.end() ? *at : *(at + 1);
  return at == list.values.begin() ? *at : *(at - 1);
}

}  // namespace

Result<void> check_mutations(const Space& mutations) {
  if (Result<void> checked = mutations.check(); !checked) return checked;
  for (const auto& [name, domain] : mutations) {
    if (domain.condition) return mutation_failure(name, "has a condition; pass it without when");
    if (domain.kind == DomainKind::grid)
      return mutation_failure(name, "grid_search cannot be mutated; use ordered or choice");
    const bool text = std::any_of(domain.values.begin(), domain.values.end(),
                                  [](const Value& value) { return value.is_text(); });
    if (domain.kind != DomainKind::ordered && text)
      return mutation_failure(name, "choice of text cannot be multiplied; use ordered");
  }
  return {};
}

void fill_config(Config& config, const Space& mutations, TuneRandom& random) {
  for (const auto& [name, domain] : mutations) {
    if (config.has(name)) continue;
    if (domain.kind == DomainKind::ordered)
      config.set(name, domain.values[random.python.index(domain.values.size())]);
    else if (domain.kind == DomainKind::sample_from)
      config.set(name, domain.draw(config));
    else
      config.set(name, domain.sample(random.numpy));
  }
}

Result<void> check_config(const Config& config, const Space& mutations) {
  for (const auto& [name, domain] : mutations) {
    const Value* value = config.find(name);
    if (value != nullptr && value->is_text() && domain.kind != DomainKind::ordered)
      return mutation_failure(
          name, fmt::format("{} cannot be multiplied; use ordered", to_string(*value)));
  }
  return {};
}

Result<Config> explore(const Config& config, const ExploreRules& rules, TuneRandom& random) {
  Config explored = config;
  for (const auto& [name, domain] : rules.mutations) {
    const Value* present = config.find(name);
    if (present == nullptr) continue;
    if (domain.kind == DomainKind::ordered) {
      explored.set(name,
                   move_to_neighbor(domain, *present, rules.resample_probability, random.python));
      continue;
    }
    Value value;
    if (random.python.unit() < rules.resample_probability) {
      value = domain.kind == DomainKind::sample_from ? domain.draw(config)
                                                     : domain.sample(random.numpy);
    } else {
      const double factor =
          rules.perturbation_factors[random.python.index(rules.perturbation_factors.size())];
      value = present->number() * factor;
    }
    value = of_same_kind(value, *present);
    explored.set(name, rules.clamp ? of_same_kind(domain.clamp(value), *present) : value);
  }
  if (!rules.custom) return explored;
  try {
    return rules.custom(explored);
  } catch (const std::exception& error) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("custom_explore_fn: threw '{}'; correct the function", error.what()));
  }
}

}  // namespace mobula::internal::tune
