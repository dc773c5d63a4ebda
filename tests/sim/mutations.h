// Deliberate bugs, each around a core and never in one, that prove that a checker sees what it is for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/hooks.h"

namespace mobula::internal::sim {

struct Mutation {
  std::string name;
  std::vector<std::string> scenarios;  // where it is looked for
  std::function<Hooks()> make;         // fresh for each history
};
const std::vector<Mutation>& mutations();
const Mutation* find_mutation(const std::string& name);

}  // namespace mobula::internal::sim
