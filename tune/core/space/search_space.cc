#include "tune/core/space/search_space.h"

#include <fmt/format.h>

#include <exception>
#include <set>

namespace mobula::internal::tune {
namespace {

constexpr int max_passes = 20;

Failure space_failure(std::string text) {
  return failure(ErrorCode::invalid_argument, std::move(text));
}

}  // namespace

std::optional<std::size_t> Space::index_of(std::string_view name) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].first == name) return i;
  return std::nullopt;
}

Result<void> Space::check() const {
  std::set<std::string> names;
  for (const auto& [name, domain] : parameters_) {
    if (name.empty() || name.front() == '/' || name.back() == '/' ||
        name.find("//") != std::string::npos)
      return space_failure(fmt::format(
          "parameter '{}': empty name or part of a name; pass a name as 'lr' or 'model/layers'",
          name));
    if (!names.insert(name).second)
      return space_failure(
          fmt::format("parameter '{}': duplicate parameter; remove or rename one", name));
    if (Result<void> checked = domain.check(name); !checked) return checked;
  }
  for (const std::string& name : names) {
    const auto below = names.lower_bound(name + "/");
    if (below != names.end() && below->starts_with(name + "/"))
      return space_failure(
          fmt::format("parameter '{}': also a group of parameter '{}'; rename one", name, *below));
  }
  for (const auto& [name, domain] : parameters_) {
    // A chain of parents longer than the number of parameters is a circle.
    const Domain* at = &domain;
    for (std::size_t steps = 0; at->condition; ++steps) {
      const auto parent = index_of(at->condition->parameter);
      if (!parent)
        return space_failure(
            fmt::format("parameter '{}': unknown parent '{}' in when; add it to the space", name,
                        at->condition->parameter));
      if (steps > parameters_.size())
        return space_failure(
            fmt::format("parameter '{}': circular conditions; remove one of them", name));
      at = &parameters_[*parent].second;
      if (domain.kind == DomainKind::grid && at->kind != DomainKind::grid &&
          at->kind != DomainKind::constant)
        return space_failure(
            fmt::format("parameter '{}': grid_search depends on a parameter that is not a grid or "
                        "a constant; use choice",
                        name));
    }
  }
  return {};
}

Result<void> Space::check_not_empty() const {
  if (parameters_.empty())
    return space_failure("space: no parameters; pass at least one in RunOptions::space");
  return check();
}

void Resolution::fix(std::size_t parameter, Value value) {
  slots_[parameter] = Slot{true, std::move(value)};
}

Config Resolution::config() const {
  Config config;
  config.reserve(slots_.size());
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].value) config.set((*space_)[i].first, *slots_[i].value);
  return config;
}

Result<void> Resolution::draw(NumpyRandom& random, bool partly) {
  // A pass resolves at least one level of conditions, therefore conditions do not count.
  const int passes = max_passes + static_cast<int>(slots_.size());
  for (int pass = 0; pass < passes; ++pass) {
    bool complete = true;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].done || (*space_)[i].second.kind == DomainKind::grid) continue;
      Result<Outcome> outcome = draw_parameter(i, random);
      if (!outcome) return outcome.error();
      if (*outcome == Outcome::later) complete = false;
    }
    if (complete) return {};
  }
  if (partly) return {};
  return space_failure(
      fmt::format("parameter '{}': waits for parameter '{}', which has no value after {} passes; "
                  "remove the circular dependency",
                  blocked_parameter_, blocking_parameter_, max_passes));
}

bool Resolution::condition_holds(std::size_t parameter) const {
  const auto& condition = (*space_)[parameter].second.condition;
  if (!condition) return true;
  const auto& value = slots_[*space_->index_of(condition->parameter)].value;
  return value && *value == condition->equals;
}

Result<Resolution::Outcome> Resolution::draw_parameter(std::size_t parameter, NumpyRandom& random) {
  const auto& [name, domain] = (*space_)[parameter];
  if (domain.condition) {
    const std::size_t parent = *space_->index_of(domain.condition->parameter);
    if (!slots_[parent].done) {
      blocked_parameter_ = name;
      blocking_parameter_ = domain.condition->parameter;
      return Outcome::later;
    }
    if (!condition_holds(parameter)) {
      deactivate(parameter);
      return Outcome::resolved;
    }
  }
  if (domain.kind == DomainKind::sample_from) return call_function(parameter);
  slots_[parameter] = Slot{true, domain.sample(random)};
  return Outcome::resolved;
}

Result<Resolution::Outcome> Resolution::call_function(std::size_t parameter) {
  const auto& [name, domain] = (*space_)[parameter];
  try {
    slots_[parameter] = Slot{true, domain.draw(config())};
    return Outcome::resolved;
  } catch (const MissingParameter& missing) {
    const auto other = space_->index_of(missing.name);
    if (!other)
      return space_failure(fmt::format(
          "parameter '{}': sample_from reads unknown parameter '{}'; add it to the space", name,
          missing.name));
    if (slots_[*other].done)
      return space_failure(
          fmt::format("parameter '{}': sample_from reads inactive parameter '{}'; test it with has",
                      name, missing.name));
    blocked_parameter_ = name;
    blocking_parameter_ = missing.name;
    return Outcome::later;
  } catch (const std::exception& error) {
    return space_failure(fmt::format("parameter '{}': sample_from threw '{}'; correct the function",
                                     name, error.what()));
  }
}

}  // namespace mobula::internal::tune
