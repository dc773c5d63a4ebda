// Mutations of the core of an experiment: deliberate bugs that prove that each check detects its
// kind of fault. They wrap the core and its parts, and never change them.
// Thread: any (plain values).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tune/experiment/experiment_world.h"

namespace mobula::internal::tune {

struct ExperimentMutation {
  std::string name;           // as in the name of a test
  WorldOptions options = {};  // histories that expose it
  bool is_killed = false;     // the driver is killed once
  std::string fault;          // a part of the text of the check that detects it
  std::function<WorldHooks()> make;
};
const std::vector<ExperimentMutation>& experiment_mutations();

}  // namespace mobula::internal::tune
