#include "cli/run_record.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "protocol/cluster_files.h"

namespace mobula::internal::cli {
namespace {

namespace fs = std::filesystem;

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

// Field 22 of /proc/<pid>/stat (proc(5)); nothing for a process that is gone or a zombie. The name
// in field 2 may hold blanks and brackets, so counting begins after the last bracket.
std::optional<std::uint64_t> start_time_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const auto bracket = line.rfind(')');
  if (bracket == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(bracket + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) {
    fields >> field;
    if (number == 3 && field == "Z") return std::nullopt;
  }
  try {
    return std::stoull(field);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

RunRecord RunRecord::of_this_process(bool head, bool has_keeper) {
  RunRecord record;
  record.pid = ::getpid();
  record.start_time = start_time_of(record.pid).value_or(0);
  record.boot_id = internal::cli::boot_id();
  record.keeper = has_keeper ? ::getppid() : 0;
  record.head = head;
  return record;
}

bool RunRecord::alive() const {
  return boot_id == internal::cli::boot_id() && start_time_of(pid) == start_time;
}

Result<void> save(const RunRecord& record, const std::string& folder) {
  if (auto made = make_private_folder(folder + "/running"); !made) return made;
  const nlohmann::ordered_json json = {{"schema", 1},
                                       {"pid", record.pid},
                                       {"start_time", record.start_time},
                                       {"boot_id", record.boot_id},
                                       {"keeper", record.keeper},
                                       {"head", record.head}};
  return write_file(fmt::format("{}/running/{}.json", folder, record.pid), json.dump() + "\n",
                    0600);
}

std::vector<RunRecord> records_of(const std::string& folder) {
  std::vector<RunRecord> records;
  std::error_code code;
  for (fs::directory_iterator at(folder + "/running", code), end; !code && at != end;
       at.increment(code)) {
    const std::string path = at->path().string();
    if (at->path().extension() != ".json") continue;
    const auto text = read_file(path);
    const auto json = nlohmann::json::parse(text ? *text : "", nullptr, false);
    if (!json.is_object()) continue;
    try {
      RunRecord record;
      record.pid = json.value("pid", 0);
      record.start_time = json.value("start_time", std::uint64_t{0});
      record.boot_id = json.value("boot_id", std::string());
      record.keeper = json.value("keeper", 0);
      record.head = json.value("head", false);
      record.path = path;
      records.push_back(std::move(record));
    } catch (const nlohmann::json::exception&) {
      continue;  // edited by hand into something else: not ours to end
    }
  }
  return records;
}

}  // namespace mobula::internal::cli
