#include "cli/repl/live_names.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/exit_code.h"
#include "cli/find_cluster.h"
#include "cli/output/log_lines.h"
#include "cli/repl/completion.h"
#include "cli/repl/line.h"
#include "cli/tool_client.h"

namespace mobula::internal::cli::repl {
namespace {

namespace fs = std::filesystem;

constexpr Duration tab_timeout = std::chrono::milliseconds(1500);
constexpr std::size_t most_completions = 10'000;

// Runs the program next to this one, if it is installed.
std::vector<std::string> benchmarks() {
  std::error_code code;
  const auto program = fs::read_symlink("/proc/self/exe", code).parent_path() / "mobula-bench";
  if (::access(program.c_str(), X_OK) != 0) return {};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> said(
      ::popen((quoted_word(program) + " --list 2>/dev/null").c_str(), "re"), ::pclose);
  std::vector<std::string> names;
  std::array<char, 512> row;
  while (said && names.size() < most_completions &&
         std::fgets(row.data(), row.size(), said.get()) != nullptr) {
    const std::string_view text = row.data();
    const auto end = text.find("  ");
    if (end != std::string_view::npos) names.emplace_back(text.substr(0, end));
  }
  return names;
}

}  // namespace

std::vector<std::string> ids_of(const CommandLine& line, const std::string& kind) {
  if (kind == "benchmarks") return benchmarks();
  static const std::map<std::string, std::string> id_members{
      {"nodes", "node_id"},      {"jobs", "job_id"},
      {"submissions", "job_id"}, {"tasks", "task_id"},
      {"actors", "actor_id"},    {"objects", "object_id"},
      {"leases", "slot_id"},     {"executors", "process_id"},
      {"demands", "class_id"},   {"placement-groups", "placement_group_id"}};
  const auto member = id_members.find(kind);
  const auto cluster = member == id_members.end() ? failure(ErrorCode::not_found, "no such kind")
                                                  : find_cluster(line);
  if (!cluster) return {};
  auto client = ToolClient::open(*cluster);
  const auto text = client ? client->request("list", kind, {}, tab_timeout) : client.error();
  if (!text) return {};
  const auto list = nlohmann::json::parse(*text, nullptr, false);
  if (!list.is_object() || !list.contains("items")) return {};
  std::vector<std::string> names;
  for (const auto& item : list["items"]) {
    if (names.size() >= most_completions) break;
    const auto id = item.find(member->second);
    if (id != item.end() && id->is_string()) names.push_back(id->get<std::string>());
    const auto name = item.find("name");
    const bool is_name = kind == "submissions" && name != item.end() && name->is_string();
    if (is_name && !name->get_ref<const std::string&>().empty())
      names.push_back(name->get<std::string>());
  }
  return names;
}

std::vector<std::string> files_beginning(const std::string& begun) {
  const auto slash = begun.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : begun.substr(0, slash + 1);
  std::vector<std::string> paths;
  std::error_code code;
  for (fs::directory_iterator at(directory.empty() ? "." : directory, code), end;
       !code && at != end; at.increment(code)) {
    std::string path = directory + at->path().filename().string();
    // Names with terminal controls are not offered.
    if (!path.starts_with(begun) || paths.size() >= most_completions || printable(path) != path)
      continue;
    std::error_code ignored;
    if (at->is_directory(ignored)) path += '/';
    paths.push_back(std::move(path));
  }
  std::ranges::sort(paths);
  return paths;
}

int print_completions(const CommandLine& line, const std::string& typed) {
  LiveNames names;
  names.ids = [&line](const std::string& kind) { return ids_of(line, kind); };
  names.files = files_beginning;
  for (const auto& word : complete(typed, command_tree(), names, false).words)
    std::printf("%s\n", word.c_str());
  return exit_done;
}

}  // namespace mobula::internal::cli::repl
