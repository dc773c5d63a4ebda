#include "cli/commands/start/start.h"
#include "cli/commands/nodes/autoscale_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "cli/child.h"
#include "cli/commands/start/head_flags.h"
#include "cli/commands/start/start_for_driver.h"
#include "cli/commands/start/supervisor.h"
#include "cli/commands/token_commands.h"
#include "cli/exit_code.h"
#include "cli/find_cluster.h"
#include "cli/output/log_lines.h"
#include "cli/output/output.h"
#include "cli/output/table_columns.h"
#include "cli/tool_client.h"
#include "protocol/process_identity.h"

namespace mobula::internal::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// `reported` is the report of a failed start: {"exit", "error"}, or plain text from a deeper layer.
int complain_of_start(const std::string& reported) {
  const auto json = Json::parse(reported, nullptr, false);
  if (!json.is_object()) return complain(failure(ErrorCode::unavailable, reported), exit_failed);
  return complain(failure(ErrorCode::unavailable, json.value("error", std::string())),
                  json.value("exit", static_cast<int>(exit_failed)));
}

bool only_here(const std::string& address) {
  return address.starts_with("127.") || address.starts_with("localhost:") ||
         address.starts_with("[::1]");
}

// A token belongs to the user of this process. Jobs, executors, and readers of /proc/PID/environ
// must not get it, so its bytes are erased as well as its name. The command line has been parsed
// before.
void forget_tokens() {
  for (const char* name : {"MOBULA_TOKEN", "MOBULA_TOKEN_FILE"}) {
    if (char* value = std::getenv(name)) ::explicit_bzero(value, std::strlen(value));
    ::unsetenv(name);
  }
}

// Reports whether a running process holds the lock at `path`.
bool holds_lock(const std::string& path) {
  const Fd lock(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

constexpr int unsaid_ms = 1000;  // until the first message about the wait

volatile std::sig_atomic_t start_interrupted = 0;

// While it exists, Ctrl-C and SIGTERM are recorded and end the background start before this
// process.
class Interruptions {
 public:
  Interruptions() {
    struct sigaction noted {};
    noted.sa_handler = [](int) { start_interrupted = 1; };
    ::sigaction(SIGINT, &noted, &before_int_);
    ::sigaction(SIGTERM, &noted, &before_term_);
  }
  ~Interruptions() {
    ::sigaction(SIGINT, &before_int_, nullptr);
    ::sigaction(SIGTERM, &before_term_, nullptr);
  }
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;

 private:
  struct sigaction before_int_ {};
  struct sigaction before_term_ {};
};

void say_waiting(const std::string& why) {
  std::fprintf(stderr, "mobula: %s; retrying, Ctrl-C stops\n", why.c_str());
}

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
      plan_.is_service = true;
      int code = exit_done;
      const Report report{[&](const std::string& message) { announce(message); },
                          [&](const std::string& why) { code = complain_of_start(why); },
                          say_waiting};
      const int ended = supervise(programs_, plan_, report);
      return code != exit_done ? code : ended;
    }
    plan_.has_shim = true;
    const Fd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0U)));
    plan_.starter_fd = self.get();
    const Interruptions noted;
    const auto started = programs_.in_background(
        plan_.directory + "/mobula.log",
        [this](const Report& report) { return supervise(programs_, plan_, report); }, say_waiting,
        [] { return start_interrupted != 0; }, plan_.autoscaler != nullptr);
    if (!started) return complain_of_start(started.error().text);
    announce(*started);
    return exit_done;
  }

  // Reports the result of a start without starting.
  int check() {
    if (!line_.start.head) return exit_done;
    cluster_ = line_.cluster.empty() ? default_cluster : line_.cluster;
    plan_.directory = line_.state_dir + "/" + cluster_;
    const auto free = programs_.head_could_listen(head_plan());
    return free ? static_cast<int>(exit_done) : complain(free.error(), exit_failed);
  }

 private:
  Result<void> prepare() {
    const StartOptions& options = line_.start;
    if (cluster_.empty()) cluster_ = line_.cluster.empty() ? default_cluster : line_.cluster;
    plan_.directory = line_.state_dir + "/" + cluster_;
    for (const auto& directory : {line_.state_dir, plan_.directory}) {
      if (auto made = make_private_dir(directory); !made) return made;
    }
    for (const char* below : {"/agent", "/agent/logs"}) {
      if (!options.worker) break;
      if (auto made = make_private_dir(plan_.directory + below); !made) return made;
    }
    if (options.head) plan_.head = head_plan();
    if (!options.autoscale.empty()) {
      CommandLine autoscaler;
      autoscaler.state_dir = line_.state_dir;
      autoscaler.cluster = cluster_;
      autoscaler.types_file = options.autoscale;
      if (auto good = check_types_file(autoscaler.types_file); !good) {
        return failure(good.error().code,
                       good.error().text + "; --autoscale off starts the head alone");
      }
      plan_.autoscaler = [autoscaler] { return run_autoscaler(autoscaler, {}); };
    }
    agent_runs_ = options.head && holds_lock(plan_.directory + "/agent/lock");
    if (options.worker && !agent_runs_) plan_.agent = agent_plan();
    const std::string operator_key = plan_.directory + "/head/operator.key";
    // A head without keys of an earlier start has no tokens.
    if (options.head && !options.insecure && !options.expose_head_keys &&
        ::access(operator_key.c_str(), R_OK) == 0) {
      plan_.refuses_agent = [operator_key](const std::string& address) {
        const std::string token = driver_token_of(address, operator_key);
        if (token.empty()) return token;
        return fmt::format(
            "start --head: jobs of a worker next to this head could read {}, and driver token '{}' "
            "exists, whose jobs would control the cluster; add --no-worker, revoke the token, or "
            "add --expose-head-keys",
            operator_key, token);
      };
    }
    return store_key();
  }

  // A head that rejects this key never accepts it, so waiting would be useless. In a child process,
  // because the request needs threads.
  int try_door() const {
    if (line_.start.head) return exit_done;
    const ClusterAddress cluster{line_.address, key_, key_path_};
    auto child = Child::start([&](const Child::Notify&) {
      auto client = ToolClient::open(cluster);
      const auto pong = client ? client->request("ping") : client.error();
      if (!pong)
        return exit_code_of(pong.error()) != exit_refused ? exit_done : complain(pong.error());
      return refuse_readable_keys();
    });
    if (!child) return exit_done;
    pollfd ended{child->report_fd(), POLLIN, 0};
    if (::poll(&ended, 1, unsaid_ms) == 0) {
      say_waiting(line_.address +
                  ": no reply from the head, or from the name server about its address");
    }
    if (child->wait() != exit_refused) return exit_done;
    return complain(failure(ErrorCode::permission_denied, child->last_words()));
  }

  // Jobs run as the user of the worker. If it can read the operator's key of this head, a driver's
  // token is worth as much as that key.
  int refuse_readable_keys() const {
    const auto path = readable_operator_key();
    if (!path || line_.start.expose_head_keys) return exit_done;
    const std::string token = driver_token_of(line_.address, *path);
    if (token.empty()) return exit_done;
    return complain(failure(
        ErrorCode::permission_denied,
        fmt::format(
            "start --address {}: jobs of this worker could read {}, and driver token '{}' "
            "exists, whose jobs would "
            "control the cluster; start the worker as another user, or add --expose-head-keys",
            line_.address, *path, token)));
  }

  std::optional<std::string> readable_operator_key() const {
    if (!key_) return std::nullopt;
    for (const auto& directory :
         {line_.state_dir + "/" + cluster_, default_state_dir() + "/" + cluster_,
          fs::path(key_path_).parent_path().string()}) {
      const std::string path = directory + "/head/operator.key";
      if (::access(path.c_str(), R_OK) != 0) continue;
      const auto key = load_key_file(path);
      if (key && key->head_curve_key == key_->head_curve_key) return path;
    }
    return std::nullopt;
  }

  HeadPlan head_plan() const {
    const StartOptions& options = line_.start;
    HeadPlan head;
    head.directory = plan_.directory;
    head.cluster = cluster_;
    head.bind = options.bind;
    head.advertise = options.advertise;
    head.port = options.port;
    head.insecure = options.insecure;
    head.preempt_delay = options.preempt_delay;
    head.driver_absence_s = options.driver_absence_s;
    head.trusted_fabric = options.trusted_fabric;
    head.http = options.http;
    head.http_unencrypted = options.http_unencrypted;
    head.http_cert = options.http_cert;
    head.http_key = options.http_key;
    head.moves = options.as_given;
    head.log_level = line_.log_level.value_or(LogLevel::info);
    head.log_file = plan_.directory + "/head/head.log";
    head.record = options.record;
    return head;
  }

  AgentPlan agent_plan() const {
    const StartOptions& options = line_.start;
    AgentPlan agent;
    agent.directory = plan_.directory;
    agent.cluster = cluster_;
    agent.head_address = line_.address;
    agent.key_file = key_path_;
    agent.bind = options.bind;
    agent.advertise = options.advertise;
    agent.fabric = options.fabric;
    agent.node = options.node;
    agent.memory_threshold = options.memory_threshold;
    agent.drain_timeout = Duration(static_cast<std::int64_t>(options.grace * 1e9));
    agent.executor_memory_bytes = options.executor_memory_bytes;
    agent.gpu_over_share = options.gpu_over_share;
    agent.gpu_watch_period = std::chrono::milliseconds(options.gpu_watch_ms);
    agent.beside_head = options.head;
    agent.log_level = line_.log_level.value_or(LogLevel::info);
    agent.log_file = plan_.directory + "/agent/logs/agent.log";
    agent.record = options.record;
    return agent;
  }

  Result<void> find_key() {
    if (line_.start.insecure) return {};
    if (line_.key_file.empty() && !line_.token.empty()) {
      return failure(ErrorCode::invalid_argument,
                     "start: MOBULA_TOKEN holds a token of a driver or an observer, which cannot "
                     "add a machine; give --key FILE, or --join "
                     "with a token of `mobula token create --role agent`");
    }
    key_path_ =
        line_.key_file.empty() ? known_key_for(line_.state_dir, line_.address) : line_.key_file;
    if (key_path_.empty()) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("join {}: no key file of the cluster; give it with --key (it is "
                                 "on the head's machine "
                                 "in <state directory>/<cluster>/",
                                 line_.address));
    }
    auto key = load_key_file(key_path_);
    if (!key) return key.error();
    key_path_ = absolute_path(key_path_);
    key_ = std::move(key).value();
    cluster_ = line_.cluster.empty() ? key_->cluster : line_.cluster;
    return {};
  }

  // Copies the key for tools and drivers of this machine.
  Result<void> store_key() const {
    if (!key_) return {};
    const std::string own = fmt::format("{}/{}.key", plan_.directory, cluster_);
    return own == key_path_ ? Result<void>() : save(*key_, own);
  }

  void announce(const std::string& message) const {
    const auto reported = Json::parse(message, nullptr, false);
    Json warnings =
        reported.is_object() ? reported.value("warnings", Json::array()) : Json::array();
    for (const std::string& each : beyond_memory()) warnings.push_back(each);
    for (const auto& each : warnings) warn(each.get<std::string>());
    if (plan_.head) {
      // The head runs without the saved flags; only its next start cannot reuse them.
      if (auto saved = save_head_flags(line_.start, plan_.directory); !saved)
        complain(saved.error());
    }
    const std::string address =
        reported.is_object() ? reported.value("address", std::string()) : "";
    const std::string key = fmt::format("{}/{}.key", plan_.directory, cluster_);
    const bool keyless = line_.start.insecure;
    const std::string join = fmt::format("mobula start --address {}{}", address,
                                         keyless ? " --insecure" : " --key " + shell_word(key));
    if (line_.output != OutputFormat::table) {
      Json json = {{"apiVersion", "mobula/v1"},
                   {"kind", "Started"},
                   {"cluster_name", cluster_},
                   {"address", address},
                   {"key_file", keyless ? "" : key},
                   {"join", join},
                   {"warnings", warnings}};
      if (reported.contains("node_id")) json["node_id"] = reported["node_id"];
      if (reported.contains("http")) json["http"] = reported["http"];
      std::fputs(format_document(json, line_.output, {}).c_str(), stdout);
    } else if (plan_.head) {
      std::printf("Cluster '%s' is up. Head: %s\n", cluster_.c_str(), address.c_str());
      std::printf("Run a program on this machine: %s\n", program_command(address).c_str());
      std::printf("Add another machine%s:\n  %s\n",
                  only_here(address) ? " (if the head listens on a network, see --bind)"
                                     : " with a copy of the key file",
                  join.c_str());
      if (reported.contains("http")) say_pages(reported["http"]);
      if (agent_runs_) std::printf("The agent of this machine is already running.\n");
    } else {
      std::printf("Node %s joined cluster '%s'. Head: %s\n",
                  reported.value("node_id", std::string()).c_str(), printable(cluster_).c_str(),
                  address.c_str());
    }
    std::fflush(stdout);
  }

  // Amounts above the memory of the machine: the kernel ends tasks that use them.
  std::vector<std::string> beyond_memory() const {
    if (!plan_.agent) return {};
    const auto total =
        static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
    const NodeFlags& node = line_.start.node;
    std::vector<std::string> warnings;
    for (const auto& [flag, bytes] :
         {std::pair("--memory", node.memory_bytes),
          std::pair("--object-store-memory", node.object_store_bytes),
          std::pair("--executor-memory", line_.start.executor_memory_bytes)}) {
      if (!bytes || *bytes <= total) continue;
      warnings.push_back(
          fmt::format("{} {}: above the memory of this machine, {}; give at most that", flag,
                      size_text(*bytes), size_text(total)));
    }
    return warnings;
  }

  // Returns the command of a user's program on this machine. It finds the cluster by itself if only
  // one runs.
  std::string program_command(const std::string& address) const {
    std::size_t running = 0;
    for (const auto& name : clusters_of(line_.state_dir)) {
      const auto head = load_head_file(line_.state_dir + "/" + name + "/head/head.json");
      running += head && runs(*head) ? 1 : 0;
    }
    const bool usual = line_.state_dir == default_state_dir();
    const std::string from = usual ? "" : "MOBULA_STATE_DIR=" + shell_word(line_.state_dir) + " ";
    return from + (usual && running == 1 ? "" : "MOBULA_ADDRESS=" + address + " ") + "./app";
  }

  static void say_pages(const Json& http) {
    const std::string url = http.value("url", std::string());
    const std::string token = http.value("token_file", std::string());
    if (token.empty()) {  // a head without keys
      std::printf("HTTP pages: %s. Example:\n  curl %s/healthz\n", url.c_str(), url.c_str());
      return;
    }
    std::printf(
        "HTTP pages: %s. Example:\n  curl -H \"Authorization: Bearer $(cat %s)\" "
        "%s/api/v1/status\n"
        "Web page: %s/ (`mobula page` prints its link with the token)\n",
        url.c_str(), token.c_str(), url.c_str(), url.c_str());
  }

  const Programs& programs_;
  const CommandLine& line_;
  std::string cluster_;
  std::string key_path_;
  std::optional<KeyFile> key_;
  bool agent_runs_ = false;  // the agent of an earlier head
  SupervisorPlan plan_;
};

}  // namespace

int start(const Programs& programs, CommandLine& line) {
  forget_tokens();
  const bool lives_with_starter = line.start.local || line.start.driver_agent;
  if (line.start.head && !line.start.as_given && !lives_with_starter) {
    const auto as_before = add_head_flags_of_before(line);
    if (!as_before) return complain(as_before.error());
    if (!as_before->empty()) {
      std::fprintf(stderr,
                   "mobula: reused flags of the previous start: %s (--no-reuse-flags omits them)\n",
                   as_before->c_str());
    }
  }
  if (line.start.check_only) return Start(programs, line).check();
  if (lives_with_starter) return start_for_driver(programs, line);
  if (!line.start.join.empty()) {
    CommandLine joined = line;
    if (const int code = join_by_ticket(joined); code != exit_done) return code;
    return Start(programs, joined).run();
  }
  return Start(programs, line).run();
}

}  // namespace mobula::internal::cli
