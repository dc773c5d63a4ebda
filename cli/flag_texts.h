// Flags of the command line as text. Each is read after the parse, so that one file words the
// errors.
// Thread: main, at start.
#pragma once

#include <string>
#include <vector>

namespace mobula::internal::cli {

struct FlagTexts {
  std::string num_cpus, num_gpus, gpu_memory, gpu_context, memory, object_store;
  std::string resources, labels, labels_file, format, port, preemption, preempt_delay,
      memory_threshold, executor_memory, spill_above, color;
  std::vector<std::string> filters;
  bool json = false;
};

}  // namespace mobula::internal::cli
