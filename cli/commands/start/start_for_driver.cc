#include "cli/commands/start/start_for_driver.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/fd.h"
#include "base/id.h"
#include "base/text/json_writer.h"
#include "cli/commands/start/supervisor.h"
#include "cli/exit_code.h"
#include "cli/find_cluster.h"
#include "protocol/tickets/token.h"

namespace mobula::internal::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// A directory of this process, removed with it. The next process removes directories of killed
// ones.
class OwnDirectory {
 public:
  static Result<OwnDirectory> make() {
    const std::string runtime = default_runtime_dir();
    if (auto made = make_runtime_directory(runtime); !made) return made.error();
    remove_leftovers(runtime);
    const std::string path =
        fmt::format("{}/{}{}-{}", runtime, prefix, ::getpid(), hex_of(random_bits()).substr(0, 8));
    if (auto made = make_private_dir(path); !made) return made.error();
    return OwnDirectory(path);
  }
  OwnDirectory(OwnDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  OwnDirectory& operator=(OwnDirectory&&) = delete;
  OwnDirectory(const OwnDirectory&) = delete;
  ~OwnDirectory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  static constexpr std::string_view prefix = "local-";
  explicit OwnDirectory(std::string path) : path_(std::move(path)) {}

  static void remove_leftovers(const std::string& runtime) {
    std::error_code code;
    for (fs::directory_iterator at(runtime, code), end; !code && at != end; at.increment(code)) {
      const std::string name = at->path().filename().string();
      if (!name.starts_with(prefix)) continue;
      std::int64_t pid = 0;
      std::from_chars(name.data() + prefix.size(), name.data() + name.size(), pid);
      std::error_code ignored;
      if (pid > 0 && !process_exists(pid)) fs::remove_all(at->path(), ignored);
    }
  }

  std::string path_;
};

void write_line(int fd, const std::string& text) {
  const std::string line = text + "\n";
  if (fd >= 0) (void)!::write(fd, line.data(), line.size());
}

// A key from a token is for the agent alone and is removed with `directory`.
Result<std::string> key_file_of_driver(const CommandLine& line, const std::string& directory) {
  if (!line.key_file.empty()) return line.key_file;
  if (line.token.empty()) return known_key_for(line.state_dir, line.address);
  const auto token = token_of(line.token);
  if (!token) return token.error();
  std::string path = directory + "/token.key";
  if (const auto saved = save(key_file_of(*token), path); !saved) return saved.error();
  return path;
}

HeadPlan head_plan_for(const AgentPlan& agent) {
  HeadPlan head;
  head.directory = agent.directory;
  head.cluster = agent.cluster;
  head.log_level = agent.log_level;
  head.record = agent.record;
  return head;
}

}  // namespace

int start_for_driver(const Programs& programs, const CommandLine& line) {
  const StartOptions& options = line.start;
  for (const int fd : {options.ready_fd, options.life_fd}) {
    if (fd >= 0) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  const Fd ready(options.ready_fd);
  int code = exit_done;
  const auto refuse = [&](int with, const std::string& why) {
    code = with;
    if (ready) return write_line(ready.get(), json_text(Json{{"exit", with}, {"error", why}}));
    complain(failure(ErrorCode::unavailable, why));
  };
  auto directory = OwnDirectory::make();
  if (!directory) {
    refuse(exit_failed, directory.error().text);
    return code;
  }

  SupervisorPlan plan;
  plan.directory = directory->path() + "/local";
  plan.together = true;
  plan.recorded = false;
  plan.life_fd = options.life_fd;
  AgentPlan agent;
  agent.directory = plan.directory;
  agent.cluster = "local";
  agent.node = options.node;
  agent.drain_timeout = Duration(0);
  agent.record = options.record;
  // Warnings are for operators of a cluster; a driver gets exceptions.
  agent.log_level = line.log_level.value_or(LogLevel::error);
  if (options.local) {
    plan.head = head_plan_for(agent);
    agent.beside_head = true;
  } else {
    agent.driver_agent = true;
    agent.waits_for_head = !options.expect_head;
    agent.head_address = line.address;
    auto key = key_file_of_driver(line, directory->path());
    if (!key) {
      refuse(exit_code_of(key.error()), key.error().text);
      return code;
    }
    agent.key_file = *key;
    agent.bind = options.bind;
    agent.advertise = options.advertise;
  }
  plan.agent = agent;
  const Report report{[&](const std::string& message) { write_line(ready.get(), message); },
                      [&](const std::string& why) {
                        const auto json = Json::parse(why, nullptr, false);
                        refuse(json.value("exit", static_cast<int>(exit_failed)),
                               json.value("error", why));
                      }};
  const int ended = supervise(programs, plan, report);
  return code != exit_done ? code : ended;
}

}  // namespace mobula::internal::cli
