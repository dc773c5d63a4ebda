#include "cli/commands/start/run_record.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/text/json_writer.h"
#include "protocol/process_identity.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::cli {
namespace {

namespace fs = std::filesystem;

// Returns the inode of the directory, whatever its name; 0: it does not exist.
std::uint64_t inode_of(const std::string& directory) {
  struct stat found {};
  return ::stat(directory.c_str(), &found) == 0 ? found.st_ino : 0;
}

}  // namespace

RunRecord RunRecord::of_this_process(bool head, bool has_shim) {
  RunRecord record;
  const auto self = ProcessIdentity::of_this_process();
  record.pid = static_cast<pid_t>(self.pid);
  record.start_time = self.start_time;
  record.boot_id = self.boot_id;
  record.shim = has_shim ? ::getppid() : 0;
  record.head = head;
  return record;
}

bool RunRecord::alive() const {
  return start_time != 0 && ProcessIdentity{pid, start_time, boot_id}.alive();
}

Result<void> save(const RunRecord& record, const std::string& directory) {
  if (auto made = make_private_dir(directory + "/running"); !made) return made;
  const nlohmann::ordered_json json = {{"schema", 1},
                                       {"pid", record.pid},
                                       {"start_time", record.start_time},
                                       {"boot_id", record.boot_id},
                                       {"shim", record.shim},
                                       {"head", record.head},
                                       {"folder_inode", inode_of(directory + "/running")}};
  return write_file(fmt::format("{}/running/{}.json", directory, record.pid),
                    json_text(json) + "\n", 0600);
}

std::vector<RunRecord> records_of(const std::string& directory) {
  std::vector<RunRecord> records;
  const std::uint64_t inode = inode_of(directory + "/running");
  std::error_code code;
  for (fs::directory_iterator at(directory + "/running", code), end; !code && at != end;
       at.increment(code)) {
    const std::string path = at->path().string();
    if (at->path().extension() != ".json") continue;
    const auto text = read_file(path);
    const auto json = nlohmann::json::parse(text ? *text : "", nullptr, false);
    if (!json.is_object()) continue;
    try {
      if (json.value("folder_inode", inode) != inode) continue;
      RunRecord record;
      record.pid = json.value("pid", 0);
      record.start_time = json.value("start_time", std::uint64_t{0});
      record.boot_id = json.value("boot_id", std::string());
      record.shim = json.value("shim", json.value("keeper", 0));
      record.head = json.value("head", false);
      record.path = path;
      records.push_back(std::move(record));
    } catch (const nlohmann::json::exception&) {
      continue;  // edited by hand: not started by this program
    }
  }
  return records;
}

}  // namespace mobula::internal::cli
