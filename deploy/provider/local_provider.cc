#include "deploy/provider/local_provider.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/text/json_writer.h"
#include "base/time.h"
#include "deploy/provider/agent_flags.h"
#include "deploy/provider/serve_provider.h"
#include "protocol/process_identity.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::provider {
namespace {

namespace fs = std::filesystem;
using fleet::FailureKind;
using fleet::InstanceReply;
using fleet::InstanceSpec;
using fleet::ProviderCall;
using fleet::ProviderReply;
using fleet::ProviderRequest;
using fleet::ProviderState;
using Json = nlohmann::ordered_json;

// Variable of the processes of an instance; its value is the directory of the instance.
constexpr const char* instance_variable = "MOBULA_FLEET_INSTANCE";
// An agent that still runs this much later than its SIGTERM is killed.
constexpr std::int64_t end_timeout_ms = 45'000;
constexpr std::size_t log_tail_bytes = 600;

struct Record {
  ProcessIdentity process{};  // pid 0: not started
  std::int64_t ended_ms = 0;  // wall clock of the request to end; 0: none
  std::string type{};         // node type

  std::string ref() const { return fmt::format("{}.{}", process.pid, process.start_time); }
};

Result<void> save(const Record& record, const std::string& path) {
  const Json json = {{"pid", record.process.pid},
                     {"start_time", record.process.start_time},
                     {"boot_id", record.process.boot_id},
                     {"ended_ms", record.ended_ms},
                     {"type", record.type}};
  return write_file(path, json_text(json) + "\n", 0600);
}

// A missing or damaged record counts as one of an instance that did not start.
Record load(const std::string& path) {
  Record record;
  const auto text = read_file(path);
  const auto json = text ? Json::parse(*text, nullptr, false) : Json();
  if (!json.is_object()) return record;
  record.process.pid = json.value("pid", std::int64_t{0});
  record.process.start_time = json.value("start_time", std::uint64_t{0});
  record.process.boot_id = json.value("boot_id", std::string());
  record.ended_ms = json.value("ended_ms", std::int64_t{0});
  record.type = json.value("type", std::string());
  return record;
}

// Signals the process unless its id belongs to another process now.
void signal_process(const ProcessIdentity& process, int number) {
  const Fd self(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process.pid), 0U)));
  if (self && process.alive()) ::syscall(SYS_pidfd_send_signal, self.get(), number, nullptr, 0U);
}

// The directory in the mark of a process; empty: no mark.
std::string mark_of(const std::string& environment) {
  const std::string text = std::string(1, '\0') + environment;
  const std::string name = fmt::format("{}{}=", '\0', instance_variable);
  const auto at = text.find(name);
  if (at == std::string::npos) return {};
  const auto begin = at + name.size();
  return text.substr(begin, text.find('\0', begin) - begin);
}

// Processes with the mark of this instance, except this one.
std::vector<ProcessIdentity> marked_processes(const std::string& directory) {
  std::vector<ProcessIdentity> found;
  for (const auto& path : entries_of("/proc")) {
    const auto name = fs::path(path).filename().string();
    std::int64_t pid = 0;
    const auto end = name.data() + name.size();
    if (std::from_chars(name.data(), end, pid).ptr != end || pid == ::getpid()) continue;
    const auto start = start_time_of(pid);
    const auto environment = start ? read_file(path + "/environ") : std::string();
    if (!environment) continue;
    if (mark_of(*environment) == directory) found.push_back({pid, *start, boot_id_of_machine()});
  }
  return found;
}

class LocalProvider {
 public:
  LocalProvider(const ProviderRequest& request, std::string mobula)
      : request_(request), mobula_(std::move(mobula)) {}

  ProviderReply answer() {
    if (auto ready = open(); !ready) {
      ProviderReply reply{.call = request_.call};
      reply.error = failure_of(ready.error());
      return reply;
    }
    ProviderReply reply{.call = request_.call};
    if (request_.call == ProviderCall::describe) {
      reply.provider = "local";
    } else if (request_.call == ProviderCall::list) {
      list(reply);
    } else {
      for (const auto& each : request_.instances) {
        InstanceReply row{.name = each.name, .ref = each.ref};
        if (request_.call == ProviderCall::launch) {
          auto ref = launch(each);
          if (ref) row.ref = *ref;
          if (!ref) row.error = failure_of(ref.error());
        } else {
          end(each);
        }
        reply.instances.push_back(std::move(row));
      }
    }
    return reply;
  }

 private:
  Result<void> open() {
    const auto given = request_.settings.find("directory");
    if (given != request_.settings.end() && !given->is_string())
      return failure(ErrorCode::invalid_argument, "provider local: directory is not a text");
    directory_ = absolute_path(given == request_.settings.end()
                                   ? default_state_dir() + "/fleet/" + request_.cluster_id
                                   : given->get<std::string>());
    const auto most = request_.settings.find("max_instances");
    if (most != request_.settings.end()) {
      if (!most->is_number_unsigned())
        return failure(ErrorCode::invalid_argument, "provider local: max_instances is not a count");
      max_instances_ = most->get<std::size_t>();
    }
    if (auto made = make_private_dir(directory_); !made) return made.error();
    const auto path = directory_ + "/lock";
    lock_ = Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock_) return errno_failure("open " + path, errno);
    while (::flock(lock_.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return errno_failure("lock " + path, errno);
    }
    return {};
  }

  std::string home(const std::string& name) const { return directory_ + "/" + name; }
  std::string record_path(const std::string& name) const { return home(name) + "/instance.json"; }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& path : entries_of(directory_)) {
      const auto name = fs::path(path).filename().string();
      if (fs::is_directory(path) && name.starts_with("mobula-")) names.push_back(name);
    }
    std::ranges::sort(names);
    return names;
  }

  // Kills the remains of an agent that exited. Returns true if none is left.
  bool kill_remains(const std::string& name) const {
    const auto left = marked_processes(home(name));
    for (const auto& each : left) signal_process(each, SIGKILL);
    return left.empty();
  }

  void remove(const std::string& name) const {
    std::error_code ignored;
    fs::remove_all(home(name), ignored);
  }

  // Keeps the log of an agent that exited by itself, until the next one does.
  void keep_log(const std::string& name) const {
    std::error_code ignored;
    fs::rename(home(name) + "/agent.log", directory_ + "/failed-agent.log", ignored);
  }

  std::string why_exited(const std::string& name) const {
    const auto log = read_file(home(name) + "/agent.log");
    const auto text = log ? std::string_view(*log) : std::string_view();
    const auto tail = text.substr(text.size() - std::min(text.size(), log_tail_bytes));
    return fleet::plain_text("the agent exited" + (tail.empty() ? "" : ": " + std::string(tail)));
  }

  bool has_agent(const std::string& name) const {
    const auto agents = agents_of_machine(home(name) + "/state");
    return std::ranges::any_of(agents, [](const AgentFile& each) { return runs(each); });
  }

  void list(ProviderReply& reply) const {
    for (const auto& name : names()) {
      const Record record = load(record_path(name));
      InstanceReply row{.name = name, .ref = record.ref(), .type = record.type};
      if (record.process.alive()) {
        row.state = record.ended_ms != 0 ? ProviderState::ending
                    : has_agent(name)    ? ProviderState::running
                                         : ProviderState::starting;
        const auto ended_for_ms = wall_clock_ms() - record.ended_ms;
        const bool late =
            ended_for_ms > end_timeout_ms || ended_for_ms < 0;  // the clock moved back
        if (record.ended_ms != 0 && late) signal_process(record.process, SIGKILL);
      } else if (!kill_remains(name)) {
        row.state = ProviderState::ending;
        row.reason = "the agent exited; its processes were killed";
      } else if (record.process.pid == 0 || record.ended_ms != 0) {
        remove(name);
        continue;
      } else {
        row.state = ProviderState::failed;
        row.reason = why_exited(name);
      }
      reply.instances.push_back(std::move(row));
    }
  }

  void end(const InstanceSpec& instance) const {
    const auto path = record_path(instance.name);
    if (!path_exists(home(instance.name))) return;
    Record record = load(path);
    if (!instance.ref.empty() && record.process.pid != 0 && instance.ref != record.ref()) return;
    if (record.process.alive()) {
      signal_process(record.process, SIGTERM);
      if (record.ended_ms != 0) return;
      record.ended_ms = wall_clock_ms();
      (void)save(record, path);  // a lost record shows the instance as running or failed
    } else if (kill_remains(instance.name)) {
      if (record.process.pid != 0 && record.ended_ms == 0) keep_log(instance.name);
      remove(instance.name);
    } else {
      record.ended_ms = wall_clock_ms();
      (void)save(record, path);
    }
  }

  Result<std::string> launch(const InstanceSpec& instance) {
    const auto& name = instance.name;
    if (!name.starts_with("mobula-")) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("launch {}: the name does not begin with mobula-", name));
    }
    const Record known = load(record_path(name));
    if (known.process.alive()) return known.ref();
    if (known.process.pid != 0) {
      return failure(ErrorCode::unavailable, fmt::format("launch {}: {}", name, why_exited(name)));
    }
    if (max_instances_ != 0 && names().size() >= max_instances_) {
      return failure(ErrorCode::resource_exhausted,
                     fmt::format("launch {}: {} instances exist; max_instances is {}", name,
                                 names().size(), max_instances_));
    }
    remove(name);
    auto words = agent_flags(instance, request_.head, home(name) + "/ticket");
    if (!words) return words.error();
    words->insert(words->begin(),
                  {mobula_, "start", "--block", "--state-dir", home(name) + "/state"});
    if (auto made = make_private_dir(home(name)); !made) return made.error();
    if (!instance.ticket.empty()) {
      auto saved = write_file(home(name) + "/ticket", instance.ticket + "\n", 0600);
      if (!saved) return saved.error();
    }
    return start(instance, *words);
  }

  Result<std::string> start(const InstanceSpec& instance, std::vector<std::string>& words) {
    const auto& name = instance.name;
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_failure("make a pipe", errno);
    const Fd reads(ends[0]);
    Fd writes(ends[1]);
    const pid_t pid = ::fork();
    if (pid < 0) return errno_failure("fork", errno);
    if (pid == 0) become_agent(instance, words, writes.get());
    writes.reset();
    // Ends when the agent's program runs, or with the number of the error.
    int number = 0;
    ssize_t count = 0;
    while ((count = ::read(reads.get(), &number, sizeof number)) < 0 && errno == EINTR) {
    }
    const Record record = load(record_path(name));
    if (count == 0 && record.process.pid == pid) return record.ref();
    ::waitpid(pid, nullptr, 0);
    remove(name);
    return errno_failure(fmt::format("launch {}: start {}", name, words.front()),
                         count > 0 ? number : EIO);
  }

  // In the child. It holds a copy of the lock until its record is complete.
  [[noreturn]] void become_agent(const InstanceSpec& instance, std::vector<std::string>& words,
                                 int fault) {
    const auto& name = instance.name;
    const auto give_up = [&](int number) {
      (void)!::write(fault, &number, sizeof number);
      ::_exit(127);
    };
    if (::setsid() < 0) give_up(errno);
    Record record;
    record.process = ProcessIdentity::of_this_process();
    record.type = instance.type;
    if (!save(record, record_path(name))) give_up(EIO);
    lock_.reset();
    const auto log = home(name) + "/agent.log";
    const int input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (input < 0 || output < 0 || ::dup2(input, 0) < 0 || ::dup2(output, 1) < 0 ||
        ::dup2(output, 2) < 0)
      give_up(errno);
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;
    for (const int each : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD})
      ::sigaction(each, &plain, nullptr);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const char* each : {"MOBULA_ADDRESS", "MOBULA_CLUSTER", "MOBULA_KEY_FILE", "MOBULA_TOKEN",
                             "MOBULA_TOKEN_FILE", "MOBULA_STATE_DIR"})
      ::unsetenv(each);
    ::setenv(instance_variable, home(name).c_str(), 1);
    std::vector<char*> argv;
    for (auto& each : words) argv.push_back(each.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    give_up(errno);
    std::abort();
  }

  const ProviderRequest& request_;
  std::string mobula_;
  std::string directory_{};
  std::size_t max_instances_ = 0;  // 0: no limit
  Fd lock_{};
};

}  // namespace

bool is_instance(pid_t pid) {
  const auto environment = read_file(fmt::format("/proc/{}/environ", pid));
  const std::string mark = environment ? mark_of(*environment) : std::string();
  const char* const own = std::getenv(instance_variable);
  return !mark.empty() && mark != (own == nullptr ? "" : own);
}

ProviderReply answer_local(const ProviderRequest& request, const std::string& mobula) {
  return LocalProvider(request, mobula).answer();
}

}  // namespace mobula::internal::provider
