// The parameters of an experiment in the order of their random draws, and the resolution of one
// configuration: conditional parameters after their parents, functions after the values they read.
// Thread: owner. Errors: check() names the parameter and the fault.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tune/core/space/domain.h"

namespace mobula::internal::tune {

class Space {
 public:
  using Parameter = std::pair<std::string, Domain>;

  Space() = default;
  Space(std::initializer_list<Parameter> parameters) : parameters_(parameters) {}
  void add(std::string name, Domain domain) {
    parameters_.emplace_back(std::move(name), std::move(domain));
  }

  // Duplicate, empty and clashing names, domains without values, unknown or circular parents.
  // An empty space is valid here.
  Result<void> check() const;
  // The same, and at least one parameter.
  Result<void> check_not_empty() const;

  std::size_t size() const { return parameters_.size(); }
  bool empty() const { return parameters_.empty(); }
  const Parameter& operator[](std::size_t index) const { return parameters_[index]; }
  auto begin() const { return parameters_.begin(); }
  auto end() const { return parameters_.end(); }
  std::optional<std::size_t> index_of(std::string_view name) const;

 private:
  std::vector<Parameter> parameters_;
};

// One configuration of a checked space during its resolution.
class Resolution {
 public:
  explicit Resolution(const Space& space) : space_(&space), slots_(space.size()) {}

  void fix(std::size_t parameter, Value value);
  bool resolved(std::size_t parameter) const { return slots_[parameter].done; }
  // Draws every parameter that is not resolved and not a grid, in the order of the space, in up to
  // 20 passes. With `partly`, functions that read unresolved parameters stay unresolved; otherwise
  // they are an error that names both parameters.
  Result<void> draw(NumpyRandom& random, bool partly);
  // Marks a conditional parameter whose parent has another value.
  void deactivate(std::size_t parameter) { slots_[parameter] = Slot{true, std::nullopt}; }
  // True if the condition of `parameter` holds; its parent is resolved.
  bool condition_holds(std::size_t parameter) const;
  Config config() const;

 private:
  struct Slot {
    bool done = false;
    std::optional<Value> value = {};  // absent: inactive
  };
  enum class Outcome { resolved, later };
  Result<Outcome> draw_parameter(std::size_t parameter, NumpyRandom& random);
  Result<Outcome> call_function(std::size_t parameter);

  const Space* space_;
  std::vector<Slot> slots_;
  std::string blocked_parameter_;  // the last function that could not be called
  std::string blocking_parameter_;
};

}  // namespace mobula::internal::tune
