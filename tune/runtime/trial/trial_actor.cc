#include "tune/runtime/trial/trial_actor.h"

#include <cstdint>
#include <string>

#include <mobula/tune/trial.h>

namespace mobula::internal::tune {
namespace {

const std::string accelerator_prefix = "accelerator_type:";

}  // namespace

std::vector<Resources> placed_bundles(const mobula::tune::PlacementGroupFactory& resources) {
  std::vector<Resources> bundles = resources.bundles;
  if (bundles.front().empty()) bundles.erase(bundles.begin());
  return bundles;
}

int first_worker_bundle(const mobula::tune::PlacementGroupFactory& resources) {
  return resources.bundles.front().empty() ? 0 : 1;
}

ActorOptions options_of_bundle(const PlacementGroup& group, int index, const Resources& bundle) {
  ActorOptions options;
  options.placement = Placement{.group = group, .bundle_index = index, .capture_child_tasks = true};
  options.num_cpus = 0;
  for (const auto& [name, amount] : bundle) {
    if (name == "CPU")
      options.num_cpus = amount;
    else if (name == "GPU")
      options.num_gpus = amount;
    else if (name == "memory")
      options.memory = static_cast<std::int64_t>(amount.value());
    else if (name == "gpu_memory")
      options.gpu_memory = static_cast<std::int64_t>(amount.value());
    else if (name.starts_with(accelerator_prefix))
      options.accelerator_type = name.substr(accelerator_prefix.size());
    else
      options.resources[name] = amount;
  }
  return options;
}

ActorOptions options_of_trial(const PlacementGroup& group,
                              const mobula::tune::PlacementGroupFactory& resources,
                              const Environment& env) {
  ActorOptions options = options_of_bundle(group, 0, resources.bundles.front());
  // The thread of the user's code; exchanges between two reports have another one.
  options.concurrency_groups = {{"trial", 1}};
  options.env = env;
  return options;
}

}  // namespace mobula::internal::tune

namespace mobula::tune::detail {

ActorOptions worker_options(const WorkerBundles& bundles, int index) {
  return internal::tune::options_of_bundle(bundles.group, bundles.first + index,
                                           bundles.bundles[static_cast<std::size_t>(index)]);
}

}  // namespace mobula::tune::detail
