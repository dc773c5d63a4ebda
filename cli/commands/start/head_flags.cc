#include "cli/commands/start/head_flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/text/json_writer.h"
#include "cli/find_cluster.h"
#include "protocol/process_identity.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string path_in(const std::string& directory) { return directory + "/head/flags.json"; }

Result<Json> load(const std::string& directory) {
  if (::access(path_in(directory).c_str(), F_OK) != 0) return Json::object();  // no saved flags
  const auto text = read_file(path_in(directory));
  if (!text) return text.error();
  Json json = Json::parse(*text, nullptr, false);
  if (json.is_object()) return json;
  return failure(ErrorCode::corrupt, fmt::format("{}: not a JSON object, so the previous flags of "
                                                 "the head are unknown; remove it, and start "
                                                 "the head with all its flags",
                                                 path_in(directory)));
}

std::string text_in(const Json& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
}
bool is_set(const Json& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_boolean() && at->get<bool>();
}

// -1: absent, or not an integer.
std::int64_t integer_in(const Json& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_number_integer() ? at->get<std::int64_t>() : -1;
}

bool has_died(const std::string& directory) {
  const auto head = load_head_file(directory + "/head/head.json");
  return head && !runs(*head);
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// Returns the one cluster whose head has died; empty if no head or more than one has died.
std::string only_dead_one(const std::string& state_dir) {
  std::string found;
  for (const auto& name : clusters_of(state_dir)) {
    if (!has_died(state_dir + "/" + name)) continue;
    if (!found.empty()) return {};
    found = name;
  }
  return found;
}

}  // namespace

std::string shell_word(const std::string& text) {
  if (!text.empty() &&
      text.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=@%+[]") ==
          std::string::npos) {
    return text;
  }
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

Result<void> save_head_flags(const StartOptions& start, const std::string& directory) {
  Json json = {
      {"schema", 1},
      {"bind", start.bind},
      {"advertise", start.advertise},
      {"http", start.http},
      {"http_cert", start.http_cert},
      {"http_key", start.http_key},
      {"autoscale", start.autoscale},
      {"insecure", start.insecure},
      {"trusted_fabric", start.trusted_fabric},
      {"expose_head_keys", start.expose_head_keys},
      {"preempt_after_ms",
       start.preempt_delay ? Json(*start.preempt_delay / std::chrono::milliseconds(1)) : Json()},
      {"driver_absence_s", start.driver_absence_s},
      {"made_by", start.made_by}};
  return write_file(path_in(directory), json_text(json, 2) + "\n", 0600);
}

Result<std::string> add_head_flags_of_before(CommandLine& line) {
  StartOptions& start = line.start;
  std::string added;
  const auto add = [&](const std::string& flag, const std::string& value = {}) {
    added += fmt::format("{}{}{}", added.empty() ? "" : " ", flag,
                         value.empty() ? "" : " " + shell_word(value));
  };
  if (line.cluster.empty() &&
      !exists(fmt::format("{}/{}/head/journal.sqlite", line.state_dir, default_cluster))) {
    line.cluster = only_dead_one(line.state_dir);
    if (!line.cluster.empty()) add("--name", line.cluster);
  }
  const auto json =
      load(line.state_dir + "/" + (line.cluster.empty() ? default_cluster : line.cluster));
  if (!json) return json.error();
  const bool bind_given = !start.bind.empty();
  const auto take = [&](const char* flag, const char* name, std::string& to) {
    const std::string before = text_in(*json, name);
    if (!to.empty() || before.empty()) return;
    to = before;
    add(flag, before);
  };
  take("--bind", "bind", start.bind);
  // The advertised address depends on the bind address.
  if (!bind_given) take("--advertise", "advertise", start.advertise);
  if (!start.http_given) {
    take("--http", "http", start.http);
    take("--http-cert", "http_cert", start.http_cert);
    take("--http-key", "http_key", start.http_key);
  }
  if (!start.autoscale_given) take("--autoscale", "autoscale", start.autoscale);
  // A head without keys listens on loopback only.
  if (!start.insecure && !bind_given && is_set(*json, "insecure")) {
    start.insecure = true;
    add("--insecure");
  }
  if (!start.trusted_fabric && start.fabric.empty() && is_set(*json, "trusted_fabric")) {
    start.trusted_fabric = true;
    add("--trusted-fabric");
  }
  if (!start.expose_head_keys && start.worker && is_set(*json, "expose_head_keys")) {
    start.expose_head_keys = true;
    add("--expose-head-keys");
  }
  const auto after_ms = integer_in(*json, "preempt_after_ms");
  if (!start.preemption_given && after_ms >= 0) {
    start.preempt_delay = std::chrono::milliseconds(after_ms);
    add("--preemption", "lower-priority");
    add("--preempt-after", fmt::format("{}", static_cast<double>(after_ms) / 1000));
  }
  const auto absence_s = integer_in(*json, "driver_absence_s");
  if (start.driver_absence_s == 0 && absence_s > 0) {
    start.driver_absence_s = absence_s;
    add("--driver-absence", fmt::format("{}", absence_s));
  }
  if (start.made_by.empty()) start.made_by = text_in(*json, "made_by");
  return added;
}

bool accepts_exposed_keys(const std::string& directory) {
  const auto json = load(directory);
  return json && is_set(*json, "expose_head_keys");
}

std::string cluster_flags(const std::string& state_dir, const std::string& cluster) {
  std::string flags;
  if (cluster != default_cluster) flags += " --name " + shell_word(cluster);
  std::error_code code;
  const auto absolute = std::filesystem::absolute(state_dir, code).string();
  if (state_dir != default_state_dir())
    flags += " --state-dir " + shell_word(code ? state_dir : absolute);
  return flags;
}

std::string restart_command(const std::string& state_dir, const std::string& cluster) {
  const std::string directory = state_dir + "/" + cluster;
  const auto json = load(directory);
  const std::string made_by = json ? text_in(*json, "made_by") : std::string();
  if (!made_by.empty()) return made_by + ", in the directory of that file";
  return fmt::format("mobula start --head{}{}", exists(directory + "/agent") ? "" : " --no-worker",
                     cluster_flags(state_dir, cluster));
}

}  // namespace mobula::internal::cli
