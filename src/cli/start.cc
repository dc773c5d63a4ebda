#include "cli/start.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/id.h"
#include "cli/child.h"
#include "cli/exit_code.h"
#include "cli/find_cluster.h"
#include "cli/output.h"
#include "cli/supervisor.h"
#include "cli/tool_client.h"

namespace mobula::internal::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* default_cluster = "default";

// What was told by a start that failed: {"exit", "error"}, or, from further below, plain text.
int complain_of_start(const std::string& told) {
  const auto json = Json::parse(told, nullptr, false);
  if (!json.is_object()) return complain(failure(ErrorCode::unavailable, told), exit_failed);
  return complain(failure(ErrorCode::unavailable, json.value("error", std::string())),
                  json.value("exit", static_cast<int>(exit_failed)));
}

bool only_here(const std::string& address) {
  return address.starts_with("127.") || address.starts_with("localhost:") ||
         address.starts_with("[::1]");
}

// $MOBULA_LOG_LEVEL, which a wrong value does not keep from starting.
LogLevel log_level_or(LogLevel fallback) {
  const char* given = std::getenv("MOBULA_LOG_LEVEL");
  const auto level = given == nullptr ? Result<LogLevel>(fallback) : parse_log_level(given);
  return level ? *level : fallback;
}

// Whether a running process holds the lock at `path`.
bool holds_lock(const std::string& path) {
  const Fd lock(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// ---- in the background, or in the foreground for a person
// ----------------------------------------

class Start {
 public:
  Start(const Programs& programs, const CommandLine& line) : programs_(programs), line_(line) {}

  int run() {
    if (!line_.start.head) {
      if (auto found = find_key(); !found) return complain(found.error(), exit_wrong_use);
    }
    if (const int code = try_door(); code != exit_done) return code;
    if (auto prepared = prepare(); !prepared) return complain(prepared.error(), exit_failed);
    if (line_.start.block) {
      int code = exit_done;
      const Report report{[&](const std::string& message) { tell(message); },
                          [&](const std::string& why) { code = complain_of_start(why); }};
      const int ended = supervise(programs_, plan_, report);
      return code != exit_done ? code : ended;
    }
    plan_.has_keeper = true;
    const Fd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0U)));
    plan_.starter_fd = self.get();
    const auto started = programs_.in_background(
        plan_.folder + "/mobula.log",
        [this](const Report& report) { return supervise(programs_, plan_, report); });
    if (!started) return complain_of_start(started.error().text);
    tell(*started);
    return exit_done;
  }

 private:
  Result<void> prepare() {
    const StartOptions& options = line_.start;
    if (cluster_.empty()) cluster_ = line_.cluster.empty() ? default_cluster : line_.cluster;
    plan_.folder = line_.state_folder + "/" + cluster_;
    for (const auto& folder : {line_.state_folder, plan_.folder}) {
      if (auto made = make_private_folder(folder); !made) return made;
    }
    for (const char* below : {"/agent", "/agent/logs"}) {
      if (!options.worker) break;
      if (auto made = make_private_folder(plan_.folder + below); !made) return made;
    }
    if (options.head) plan_.head = head_plan();
    agent_runs_ = options.head && holds_lock(plan_.folder + "/agent/lock");
    if (options.worker && !agent_runs_) plan_.agent = agent_plan();
    return keep_key();
  }

  // A head that does not admit this key never will, so that waiting for it would be in vain. In a
  // child, since asking needs threads.
  int try_door() const {
    if (line_.start.head) return exit_done;
    const ClusterAddress cluster{line_.address, key_, key_path_};
    auto child = Child::start([&](const Child::Tell&) {
      auto client = ToolClient::open(cluster);
      const auto pong = client ? client->ask("ping") : client.error();
      return pong || exit_code_of(pong.error()) != exit_refused ? exit_done
                                                                : complain(pong.error());
    });
    if (!child || child->wait() != exit_refused) return exit_done;
    return complain(failure(ErrorCode::permission_denied, child->last_words()));
  }

  HeadPlan head_plan() const {
    const StartOptions& options = line_.start;
    HeadPlan head;
    head.folder = plan_.folder;
    head.cluster = cluster_;
    head.bind = options.bind;
    head.advertise = options.advertise;
    head.port = options.port;
    head.insecure = options.insecure;
    head.log_level = log_level_or(LogLevel::info);
    head.log_file = plan_.folder + "/head/head.log";
    return head;
  }

  AgentPlan agent_plan() const {
    const StartOptions& options = line_.start;
    AgentPlan agent;
    agent.folder = plan_.folder;
    agent.cluster = cluster_;
    agent.head_address = line_.address;
    agent.key_file = key_path_;
    agent.bind = options.bind;
    agent.advertise = options.advertise;
    agent.node = options.node;
    agent.log_level = log_level_or(LogLevel::info);
    agent.log_file = plan_.folder + "/agent/logs/agent.log";
    return agent;
  }

  Result<void> find_key() {
    if (line_.start.insecure) return {};
    key_path_ =
        line_.key_file.empty() ? known_key_for(line_.state_folder, line_.address) : line_.key_file;
    if (key_path_.empty()) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("joining {} needs the cluster's key file: give it with --key; it "
                                 "lies on the head's machine under <state folder>/<cluster>/",
                                 line_.address));
    }
    auto key = load_key_file(key_path_);
    if (!key) return key.error();
    key_path_ = fs::absolute(key_path_).string();
    key_ = std::move(key).value();
    cluster_ = line_.cluster.empty() ? key_->cluster : line_.cluster;
    return {};
  }

  // A copy for the tools and drivers of this machine.
  Result<void> keep_key() const {
    if (!key_) return {};
    const std::string own = fmt::format("{}/{}.key", plan_.folder, cluster_);
    return own == key_path_ ? Result<void>() : save(*key_, own);
  }

  void tell(const std::string& message) const {
    const auto told = Json::parse(message, nullptr, false);
    const std::string address = told.is_object() ? told.value("address", std::string()) : "";
    const std::string key = fmt::format("{}/{}.key", plan_.folder, cluster_);
    const bool keyless = line_.start.insecure;
    const std::string join = fmt::format("mobula start --address {}{}", address,
                                         keyless ? " --insecure" : " --key " + key);
    if (line_.output != OutputFormat::table) {
      Json json = {{"apiVersion", "mobula/v1"},      {"kind", "Started"},
                   {"cluster_name", cluster_},       {"address", address},
                   {"key_file", keyless ? "" : key}, {"join", join}};
      if (told.contains("node_id")) json["node_id"] = told["node_id"];
      std::fputs(format_document(json, line_.output, {}).c_str(), stdout);
    } else if (plan_.head) {
      std::printf("cluster '%s' runs; its head is at %s\n", cluster_.c_str(), address.c_str());
      std::printf("another machine joins with this command%s:\n  %s\n",
                  only_here(address) ? " (once the head listens beyond this one: --bind)"
                                     : " and a copy of the key file",
                  join.c_str());
      if (agent_runs_) std::printf("the agent of this machine runs already\n");
    } else {
      std::printf("node %s has joined cluster '%s' at %s\n",
                  told.value("node_id", std::string()).c_str(), cluster_.c_str(), address.c_str());
    }
    std::fflush(stdout);
  }

  const Programs& programs_;
  const CommandLine& line_;
  std::string cluster_;
  std::string key_path_;
  std::optional<KeyFile> key_;
  bool agent_runs_ = false;  // of a head that was lost, say
  SupervisorPlan plan_;
};

// ---- for mobula::init
// ----------------------------------------------------------------------------

// A folder of this process alone, gone with it. What processes that were killed have left is
// removed by the next one.
class OwnFolder {
 public:
  static Result<OwnFolder> make() {
    const std::string runtime = default_runtime_folder();
    if (auto made = make_private_folder(runtime); !made) return made.error();
    remove_leftovers(runtime);
    const std::string path =
        fmt::format("{}/{}{}-{}", runtime, prefix, ::getpid(), hex_of(random_bits()).substr(0, 8));
    if (auto made = make_private_folder(path); !made) return made.error();
    return OwnFolder(path);
  }
  OwnFolder(OwnFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  OwnFolder& operator=(OwnFolder&&) = delete;
  OwnFolder(const OwnFolder&) = delete;
  ~OwnFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  static constexpr std::string_view prefix = "local-";
  explicit OwnFolder(std::string path) : path_(std::move(path)) {}

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

int start_for_driver(const Programs& programs, const CommandLine& line) {
  const StartOptions& options = line.start;
  for (const int fd : {options.ready_fd, options.life_fd}) {
    if (fd >= 0) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  const Fd ready(options.ready_fd);
  int code = exit_done;
  const auto refuse = [&](int with, const std::string& why) {
    code = with;
    if (ready) return write_line(ready.get(), Json{{"error", why}}.dump());
    complain(failure(ErrorCode::unavailable, why));
  };
  auto folder = OwnFolder::make();
  if (!folder) {
    refuse(exit_failed, folder.error().text);
    return code;
  }

  SupervisorPlan plan;
  plan.folder = folder->path() + "/local";
  plan.together = true;
  plan.recorded = false;
  plan.life_fd = options.life_fd;
  AgentPlan agent;
  agent.folder = plan.folder;
  agent.cluster = "local";
  agent.node = options.node;
  agent.drains = false;
  // Warnings are for people who look after a cluster; a driver is told by exceptions.
  agent.log_level = log_level_or(LogLevel::error);
  if (options.local) {
    HeadPlan head;
    head.folder = plan.folder;
    head.cluster = agent.cluster;
    head.log_level = agent.log_level;
    plan.head = head;
  } else {
    agent.driver_agent = true;
    agent.head_address = line.address;
    agent.key_file =
        line.key_file.empty() ? known_key_for(line.state_folder, line.address) : line.key_file;
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

}  // namespace

int start(const Programs& programs, const CommandLine& line) {
  if (line.start.local || line.start.driver_agent) return start_for_driver(programs, line);
  return Start(programs, line).run();
}

}  // namespace mobula::internal::cli
