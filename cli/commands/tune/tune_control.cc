#include "cli/commands/tune/tune_control.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/text/json_writer.h"
#include "cli/exit_code.h"
#include "cli/head_query.h"
#include "cli/output/log_lines.h"
#include "cli/output/output.h"
#include "deploy/process.h"
#include "tune/store/experiment_lock.h"
#include "tune/store/experiment_reader.h"
#include "tune/store/stop_requests.h"

namespace mobula::internal::cli {

namespace {

using Json = nlohmann::ordered_json;

// The command line of the program that ran the experiment.
Result<std::vector<std::string>> recorded_command(const tune::ExperimentLocation& location,
                                                  const char* operation) {
  auto reader = tune::ExperimentReader::open(location);
  if (!reader) return reader.error();
  const auto experiment = reader->experiment();
  if (!experiment) return experiment.error();
  const auto spec = nlohmann::json::parse(experiment->spec, nullptr, false);
  std::vector<std::string> words;
  if (spec.is_object() && spec.contains("command") && spec["command"].is_array()) {
    for (const auto& word : spec["command"]) {
      if (word.is_string()) words.push_back(word.get<std::string>());
    }
  }
  if (!words.empty()) return words;
  return failure(ErrorCode::not_found,
                 fmt::format("{} experiment '{}': the file records no command; start the program "
                             "yourself with Resume::required",
                             operation, location.name));
}

// Runs the program, whose `run` writes the result to a file in place of trials. The output of the
// program is dropped.
Result<Json> replayed_by(const std::vector<std::string>& words,
                         const tune::ExperimentLocation& location) {
  std::string file = (std::filesystem::temp_directory_path() / "mobula-replay-XXXXXX").string();
  const Fd made(::mkstemp(file.data()));
  if (!made) return errno_failure("replay: create " + file, errno);
  deploy::Command command{.words = words};
  command.environment = {
      {"MOBULA_TUNE_REPLAY", location.name},
      {"MOBULA_TUNE_REPLAY_FILE", file},
      {"MOBULA_TUNE_STORAGE", std::filesystem::absolute(location.storage).string()}};
  const auto ended = deploy::run(std::move(command), {}, std::chrono::hours(1));
  Json result;
  {
    std::ifstream stream(file);
    result = Json::parse(stream, nullptr, false);
  }
  (void)::unlink(file.c_str());
  if (!ended) return ended.error();
  if (result.is_object() && result.contains("differing")) return result;
  return failure(ErrorCode::unavailable,
                 fmt::format("replay experiment '{}': the program {} ended with code {} before the "
                             "experiment: {}",
                             location.name, words.front(), ended->code,
                             ended->err.substr(0, ended->err.find('\n'))));
}

}  // namespace

int stop_experiment(const tune::ExperimentLocation& location, const TuneFlags& flags) {
  auto reader = tune::ExperimentReader::open(location);
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
  const std::string controller = tune::ExperimentLock::holder(location.lock_file());
  if (controller.empty()) {
    return print(fmt::format("No process runs experiment {}\n", printable(location.name)));
  }
  if (auto done = tune::request_stop(location, trial); !done) return complain(done.error());
  return print(fmt::format(
      "Requested the end of {}; {} ends it\n",
      trial ? fmt::format("trial {}", *trial) : "experiment " + printable(location.name),
      printable(controller)));
}

int resume_experiment(const tune::ExperimentLocation& location) {
  const std::string controller = tune::ExperimentLock::holder(location.lock_file());
  if (!controller.empty()) {
    return complain(failure(ErrorCode::already_exists,
                            fmt::format("resume experiment '{}': {} runs it; wait for its end, or "
                                        "stop it",
                                        location.name, controller)));
  }
  auto recorded = recorded_command(location, "resume");
  if (!recorded) return complain(recorded.error());
  std::vector<std::string>& words = *recorded;
  const std::string storage = std::filesystem::absolute(location.storage).string();
  ::setenv("MOBULA_TUNE_RESUME", location.name.c_str(), 1);
  ::setenv("MOBULA_TUNE_STORAGE", storage.c_str(), 1);
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers.front(), pointers.data());
  return complain(
      errno_failure(fmt::format("resume experiment '{}': run {}", location.name, words[0]), errno));
}

int replay_experiment(const tune::ExperimentLocation& location, const CommandLine& line) {
  const auto words = recorded_command(location, "replay");
  if (!words) return complain(words.error());
  const auto result = replayed_by(*words, location);
  if (!result) return complain(result.error());
  Json document = {
      {"apiVersion", "mobula/v1"}, {"kind", "ExperimentReplay"}, {"name", location.name}};
  document.update(*result);
  const std::int64_t differing = document["differing"].get<std::int64_t>();
  const int code = differing == 0 ? exit_done : exit_failed;
  if (!for_people(line)) {
    const int printed = print(document, line);
    return printed == exit_done ? code : printed;
  }
  std::string page =
      fmt::format("{} events, {} with recorded decisions, {} differ\n",
                  json_text(document["events"]), json_text(document["compared"]), differing);
  for (const auto& each : document["differences"]) {
    page += fmt::format("event {} of trial {}: the replay decides: {}\n", json_text(each["event"]),
                        json_text(each["trial"]), printable(each["decisions"].get<std::string>()));
  }
  const int printed = print(page);
  return printed == exit_done ? code : printed;
}

}  // namespace mobula::internal::cli
