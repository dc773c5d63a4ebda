#include "cli/commands/jobs/job_flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/model/jobs/job_files_variable.h"
#include "base/model/trace_parent.h"
#include "base/quantity.h"
#include "base/text/json_writer.h"
#include "base/time.h"
#include "cli/command_line.h"
#include "cli/seconds_option.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double most_seconds = 365.0 * 86'400;

Failure bad_flag(const std::string& flag, const std::string& why) {
  return failure(ErrorCode::invalid_argument, flag + ": " + why);
}

Result<Json> pairs_of(const std::string& flag, const std::vector<std::string>& texts) {
  Json pairs = Json::object();
  for (const std::string& text : texts) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return bad_flag(flag, "'" + text + "' is not NAME=VALUE");
    pairs[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return pairs;
}

Result<Json> request_of(const JobFlags& flags) {
  Json request = Json::object();
  for (const auto& [name, flag, text] :
       {std::array{"num_cpus", "--num-cpus", flags.num_cpus.c_str()},
        std::array{"num_gpus", "--num-gpus", flags.num_gpus.c_str()}}) {
    if (*text == '\0') continue;
    const auto amount = Quantity::parse(text);
    if (!amount) return bad_flag(flag, amount.error().text);
    request[name] = amount->to_double();
  }
  for (const auto& [name, flag, text] :
       {std::array{"gpu_memory", "--gpu-memory", flags.gpu_memory.c_str()},
        std::array{"memory", "--memory", flags.memory.c_str()}}) {
    if (*text == '\0') continue;
    const auto bytes = parse_size(text);
    if (!bytes) return bad_flag(flag, bytes.error().text);
    request[name] = *bytes;
  }
  if (!flags.resources.empty()) {
    Json resources = Json::parse(flags.resources, nullptr, false);
    if (!resources.is_object())
      return bad_flag("--resources",
                      "'" + flags.resources + "' is not a JSON object such as '{\"shuttle\": 2}'");
    request["resources"] = std::move(resources);
  }
  if (!flags.accelerator_type.empty()) request["accelerator_type"] = flags.accelerator_type;
  auto selector = pairs_of("--label-selector", flags.selector);
  if (!selector) return selector.error();
  if (!selector->empty()) request["label_selector"] = std::move(*selector);
  return request;
}

}  // namespace

void add_job_options(CLI::App& command, JobFlags& flags) {
  command.add_option("--name", flags.name, "Name of the job (default: name of the program)");
  command.add_option("--env", flags.env, "Environment variable of the job; repeatable")
      ->allow_extra_args(false);
  command.add_option("--label", flags.labels, "Label of the job, for lists; repeatable")
      ->allow_extra_args(false);
  command.add_option(
      "--workdir", flags.workdir,
      "Working directory to copy to the node, at most 256 MiB; removed with the job");
  command
      .add_option("--ship", flags.ship,
                  "Program to copy with its libraries and put first in PATH; repeatable")
      ->allow_extra_args(false);
  command
      .add_option("--ship-lib", flags.ship_lib,
                  "Library to copy with its dependencies, for programs that load it at run time; "
                  "repeatable")
      ->allow_extra_args(false);
  command.add_flag("--no-progress", flags.no_progress, "Show no progress line");
  command.add_option("--cwd", flags.cwd,
                     "Working directory on the node (default: this one, if the node has it)");
  command.add_option("--num-cpus", flags.num_cpus,
                     "CPUs that the job holds (default: none, on a node with at least 1)");
  command.add_option("--num-gpus", flags.num_gpus, "GPUs that the job holds, such as 1 or 0.5");
  command.add_option("--gpu-memory", flags.gpu_memory, "Memory per GPU, such as 16GiB");
  command.add_option("--memory", flags.memory, "Memory that the job holds, such as 4GiB");
  command.add_option("--resources", flags.resources,
                     "Custom resources, such as '{\"shuttle\": 2}'");
  command.add_option("--accelerator-type", flags.accelerator_type,
                     "Type of the GPUs, such as H100");
  command.add_option("--label-selector", flags.selector, "Required label of the node; repeatable")
      ->allow_extra_args(false);
  command
      .add_option("--priority", flags.priority,
                  "Order among jobs, -1000 to 1000, the higher one first (default: 0)")
      ->check(CLI::Range(-1000, 1000));
  command
      .add_option("--retries", flags.retries,
                  "Retries after a failure or the loss of the node (default: 0; -1: unlimited)")
      ->check(CLI::Range(-1, 1'000'000));
  takes_seconds(
      command.add_option("--time-limit", flags.time_limit,
                         "Time after which the job is ended, such as 90 or 2h (default: 0, none)"),
      0, most_seconds);
  takes_seconds(
      command.add_option("--grace", flags.grace,
                         "Time between SIGTERM and SIGKILL when the job is ended (default: 10)"),
      0, 86'400);
  // Values of the command line follow those of a script and override them.
  for (CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_max() == 1)
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

Result<std::string> submission_text(const JobFlags& flags, const std::string& job_id,
                                    const std::string& files) {
  auto env = pairs_of("--env", flags.env);
  if (!env) return env.error();
  if (env->contains(job_files_variable))
    return bad_flag("--env", std::string(job_files_variable) + " is reserved for the runtime");
  if (!files.empty()) (*env)[job_files_variable] = files;
  std::map<std::string, std::string> context;
  add_trace_context(context, std::getenv(trace_parent_variable), std::getenv(trace_state_variable));
  if (!env->contains(trace_parent_variable)) env->update(Json(context));
  if (!flags.workdir.empty() && !flags.cwd.empty())
    return bad_flag("--cwd", "cannot be combined with --workdir, where the job runs");
  auto labels = pairs_of("--label", flags.labels);
  if (!labels) return labels.error();
  auto request = request_of(flags);
  if (!request) return request.error();
  if (flags.time_limit > 0 && flags.time_limit < 0.001) {
    return bad_flag("--time-limit", "must be at least 0.001, or 0 for no limit");
  }
  std::error_code code;
  Json json = {{"job_id", job_id},
               {"argv", flags.argv},
               {"env", std::move(*env)},
               {"labels", std::move(*labels)},
               {"request", std::move(*request)},
               {"priority", flags.priority},
               {"retries", flags.retries},
               {"time_limit_ms", std::llround(flags.time_limit * 1000)},
               {"grace_ms", std::llround(flags.grace * 1000)},
               {"submitted_ms", wall_clock_ms()}};
  if (!flags.name.empty()) json["name"] = flags.name;
  if (!flags.cwd.empty()) {
    json["workdir"] = std::filesystem::absolute(flags.cwd, code).lexically_normal().string();
  } else if (flags.workdir.empty()) {
    json["cwd"] = std::filesystem::current_path(code).string();
  }
  // A shipped program is found by its name, in any directory of the node.
  if (std::ranges::find(flags.ship, flags.argv.front()) != flags.ship.end()) {
    json["argv"][0] = std::filesystem::path(flags.argv.front()).filename().string();
  }
  if (auto text = strict_json_text(json)) return *std::move(text);
  return failure(
      ErrorCode::invalid_argument,
      "submit: the command, environment, or name is not UTF-8; pass such bytes in a file");
}

}  // namespace mobula::internal::cli
