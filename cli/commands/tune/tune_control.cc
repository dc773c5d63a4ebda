#include "cli/commands/tune/tune_control.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/exit_code.h"
#include "cli/head_query.h"
#include "cli/output/log_lines.h"
#include "tune/store/experiment_lock.h"
#include "tune/store/experiment_reader.h"
#include "tune/store/stop_requests.h"

namespace mobula::internal::cli {

int stop_experiment(const tune::ExperimentPlace& place, const TuneFlags& flags) {
  auto reader = tune::ExperimentReader::open(place);
  if (!reader) return complain(reader.error());
  std::optional<tune::TrialNumber> trial;
  if (flags.trial >= 0) {
    const auto found = reader->trial(flags.trial);
    if (!found) return complain(found.error());
    if (tune::is_finished(found->state)) {
      return print(fmt::format("Trial {} has ended\n", flags.trial));
    }
    trial = flags.trial;
  }
  const std::string controller = tune::ExperimentLock::holder(place.lock_file());
  if (controller.empty()) {
    return print(fmt::format("No process runs experiment {}\n", printable(place.name)));
  }
  if (auto done = tune::request_stop(place, trial); !done) return complain(done.error());
  return print(
      fmt::format("Requested the end of {}; {} ends it\n",
                  trial ? fmt::format("trial {}", *trial) : "experiment " + printable(place.name),
                  printable(controller)));
}

int resume_experiment(const tune::ExperimentPlace& place) {
  auto reader = tune::ExperimentReader::open(place);
  if (!reader) return complain(reader.error());
  const auto experiment = reader->experiment();
  if (!experiment) return complain(experiment.error());
  const std::string controller = tune::ExperimentLock::holder(place.lock_file());
  if (!controller.empty()) {
    return complain(failure(ErrorCode::already_exists,
                            fmt::format("resume experiment '{}': {} runs it; wait for its end, or "
                                        "stop it",
                                        place.name, controller)));
  }
  const auto spec = nlohmann::json::parse(experiment->spec, nullptr, false);
  std::vector<std::string> words;
  if (spec.is_object() && spec.contains("command") && spec["command"].is_array()) {
    for (const auto& word : spec["command"]) {
      if (word.is_string()) words.push_back(word.get<std::string>());
    }
  }
  if (words.empty()) {
    return complain(
        failure(ErrorCode::not_found,
                fmt::format("resume experiment '{}': the file records no command; start "
                            "the program yourself with Resume::required",
                            place.name)));
  }
  const std::string storage = std::filesystem::absolute(place.storage).string();
  ::setenv("MOBULA_TUNE_RESUME", place.name.c_str(), 1);
  ::setenv("MOBULA_TUNE_STORAGE", storage.c_str(), 1);
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers.front(), pointers.data());
  return complain(
      errno_failure(fmt::format("resume experiment '{}': run {}", place.name, words[0]), errno));
}

}  // namespace mobula::internal::cli
