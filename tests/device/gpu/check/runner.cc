#include "device/gpu/check/runner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/fd.h"
#include "device/detection/nvml.h"
#include "device/gpu/check/budget.h"
#include "device/gpu/check/descendants.h"
#include "device/gpu/check/records.h"
#include "device/gpu/check/stages/stages.h"

namespace mobula::internal::gpu_check {
namespace {

constexpr int identify_limit_s = 20;  // NVML may have to load the driver first

std::string utc_now(const char* form) {
  char text[64];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::strftime(text, sizeof text, form, &utc);
  return text;
}

// The commit that the bundle was built from; empty outside a bundle.
std::string commit_of_bundle() {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  std::ifstream file(program.parent_path().parent_path() / "commit");
  std::string commit;
  std::getline(file, commit);
  return commit;
}

// Name, memory and driver by NVML, which creates no context.
void print_device() {
  Json device = Json::object();
  const auto nvml = Nvml::open(Nvml::library_name());
  if (nvml) {
    const auto devices = nvml->devices();
    if (devices && !devices->empty()) {
      device["name"] = devices->front().name;
      device["memory_bytes"] = devices->front().memory_bytes;
    }
    if (const auto version = nvml->driver_version()) device["driver"] = *version;
  }
  std::printf("%s\n", Json{{"device", device}}.dump().c_str());
  std::fflush(stdout);
}

class Record {
 public:
  explicit Record(const std::string& path)
      : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {}
  bool ok() const { return static_cast<bool>(file_); }
  void append(const std::string& line) const {
    const std::string whole = line + "\n";
    (void)!::write(file_.get(), whole.data(), whole.size());
  }

 private:
  Fd file_;
};

struct Verdict {
  std::string status;  // passed, failed, skipped
  std::string reason;
  double seconds = 0;
  int signal = 0;  // the run was asked to end
};

// Collects the lines of a stage until it closes its output, reaches its limit, or the run is asked
// to end.
class Watch {
 public:
  Watch(const Fd& lines, const Fd& signals, Time until)
      : lines_(lines), signals_(signals), until_(until) {}

  template <class OnLine>
  void run(const OnLine& on_line) {
    std::string gathered;
    while (true) {
      const auto left_ms =
          std::chrono::duration_cast<std::chrono::milliseconds>(until_ - monotonic_now()).count();
      if (left_ms <= 0) {
        over_limit = true;
        return;
      }
      pollfd ready[] = {{lines_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
      if (::poll(ready, 2, static_cast<int>(left_ms) + 1) < 0 && errno != EINTR) return;
      signalfd_siginfo received{};
      if ((ready[1].revents & POLLIN) != 0 &&
          ::read(signals_.get(), &received, sizeof received) == sizeof received) {
        signal = static_cast<int>(received.ssi_signo);
        return;
      }
      if ((ready[0].revents & (POLLIN | POLLHUP)) == 0) continue;
      char text[4096];
      const ssize_t count = ::read(lines_.get(), text, sizeof text);
      if (count <= 0) return;
      gathered.append(text, static_cast<std::size_t>(count));
      for (std::size_t end = 0; (end = gathered.find('\n')) != std::string::npos;
           gathered.erase(0, end + 1)) {
        on_line(gathered.substr(0, end));
      }
    }
  }

  bool over_limit = false;
  int signal = 0;

 private:
  const Fd& lines_;
  const Fd& signals_;
  Time until_;
};

class Runner {
 public:
  explicit Runner(const RunOptions& options)
      : options_(options), budget_(options.budget_s), begin_(monotonic_now()) {
    sigset_t ends;
    sigemptyset(&ends);
    for (const int each : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ends, each);
    sigprocmask(SIG_BLOCK, &ends, &before_);
    signals_ = Fd(::signalfd(-1, &ends, SFD_CLOEXEC));
    adopt_orphans();
  }

  int run() {
    if (!open_record()) return 2;
    for (const Stage& stage : stages()) {
      if (!options_.only.empty() &&
          std::ranges::find(options_.only, stage.name) == options_.only.end())
        continue;
      Verdict verdict;
      const int limit_s =
          options_.limit_s > 0 ? std::min(options_.limit_s, stage.limit_s) : stage.limit_s;
      if (signal_ != 0) {
        verdict = {"skipped", ended_text(), 0};
      } else if (const auto reason = budget_.skip_reason(elapsed_s(), limit_s)) {
        verdict = {"skipped", *reason, 0};
      } else {
        verdict = run_stage(stage, limit_s);
      }
      signal_ = signal_ != 0 ? signal_ : verdict.signal;
      finish(stage, verdict);
    }
    fmt::print("results: {}.jsonl, {}.md\n", stem_, stem_);
    if (signal_ != 0) return 128 + signal_;
    return failed_ > 0 ? 1 : passed_ > 0 ? 0 : nothing_passed;
  }

 private:
  double elapsed_s() const {
    return std::chrono::duration<double>(monotonic_now() - begin_).count();
  }
  std::string ended_text() const { return fmt::format("the run was ended by signal {}", signal_); }

  // Names the record by device and date; a second run of one day gets a number.
  bool open_record() {
    std::error_code failed;
    std::filesystem::create_directories(options_.results, failed);
    Json device = Json::object();
    const Verdict identified = fork_and_watch(
        [] {
          print_device();
          return 0;
        },
        identify_limit_s,
        [&](const std::string& line) {
          const auto json = Json::parse(line, nullptr, false);
          if (json.is_object() && json.contains("device")) device = json["device"];
        });
    signal_ = identified.signal;
    const std::string name = device.value("name", "");
    stem_ =
        (std::filesystem::path(options_.results) / result_name(name, utc_now("%Y-%m-%d"))).string();
    for (int number = 2; std::filesystem::exists(stem_ + ".jsonl"); ++number) {
      stem_ = (std::filesystem::path(options_.results) /
               fmt::format("{}-{}", result_name(name, utc_now("%Y-%m-%d")), number))
                  .string();
    }
    record_.emplace(stem_ + ".jsonl");
    if (!record_->ok()) {
      fmt::print(stderr, "mobula-gpu-check: cannot write {}.jsonl: {}\n", stem_,
                 std::strerror(errno));
      return false;
    }
    append({{"run",
             {{"date", utc_now("%Y-%m-%d %H:%M UTC")},
              {"commit", commit_of_bundle()},
              {"brief", options_.brief},
              {"budget_s", options_.budget_s},
              {"device", name},
              {"driver", device.value("driver", "")},
              {"simulated", name.find("SIMULATED") != std::string::npos}}}});
    render();
    return true;
  }

  void append(Json json) {
    json["at_s"] = std::round(elapsed_s() * 1000) / 1000;
    record_->append(json.dump(-1, ' ', false, Json::error_handler_t::replace));
    records_.push_back(std::move(json));
  }

  void render() const { (void)write_page(stem_ + ".md", page_of(records_)); }

  // Runs `body` in its own process group and passes on its lines.
  template <class Body, class OnLine>
  Verdict fork_and_watch(const Body& body, int limit_s, const OnLine& on_line) {
    const Time begin = monotonic_now();
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0)
      return {"failed", fmt::format("create a pipe: {}", std::strerror(errno)), 0};
    const Fd from(ends[0]);
    const pid_t runner = ::getpid();
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      ::setpgid(0, 0);
      (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != runner) ::_exit(1);
      sigprocmask(SIG_SETMASK, &before_, nullptr);
      ::dup2(ends[1], STDOUT_FILENO);
      const int code = body();
      std::fflush(nullptr);
      ::_exit(code);
    }
    ::close(ends[1]);
    if (child < 0) return {"failed", fmt::format("fork: {}", std::strerror(errno)), 0};
    ::setpgid(child, child);
    Watch watch(from, signals_, begin + std::chrono::seconds(limit_s));
    watch.run(on_line);
    int status = 0;
    if (watch.over_limit || watch.signal != 0) ::kill(-child, SIGKILL);
    const bool ended = wait_for(child, status);
    const bool clean = end_descendants(std::chrono::milliseconds(2'500));
    Verdict verdict{"failed", "", std::chrono::duration<double>(monotonic_now() - begin).count(),
                    watch.signal};
    if (watch.over_limit || !ended) {
      verdict.reason = fmt::format("ended at its limit of {} s", limit_s);
    } else if (watch.signal != 0) {
      verdict.status = "skipped";
      verdict.reason = fmt::format("the run was ended by signal {}", watch.signal);
    } else if (WIFSIGNALED(status)) {
      verdict.reason = fmt::format("the stage crashed with signal {}", WTERMSIG(status));
    } else if (WEXITSTATUS(status) == 0) {
      verdict.status = "passed";
    } else if (WEXITSTATUS(status) == Findings::skipped) {
      verdict.status = "skipped";
    }
    if (!clean) verdict.reason += "; some of its processes do not end";
    return verdict;
  }

  // A stage that has closed its output exits at once; one that does not is killed.
  bool wait_for(pid_t child, int& status) const {
    for (int i = 0; i < 400; ++i) {
      const pid_t got = ::waitpid(child, &status, WNOHANG);
      if (got == child) return true;
      if (got < 0 && errno != EINTR) return false;
      if (i == 200) ::kill(-child, SIGKILL);
      ::usleep(5'000);
    }
    return false;
  }

  Verdict run_stage(const Stage& stage, int limit_s) {
    std::string failed, cannot;
    Verdict verdict = fork_and_watch(
        [&] {
          Findings findings(std::string(stage.name), options_.brief, std::chrono::seconds(limit_s));
          stage.run(findings);
          return findings.exit_code();
        },
        limit_s,
        [&](const std::string& line) {
          const auto json = Json::parse(line, nullptr, false);
          if (!json.is_object()) return;
          append(json);
          if (json.contains("cannot")) cannot = json["cannot"];
          if (failed.empty() && json.contains("holds") && json["holds"] == false)
            failed = json["what"];
        });
    if (verdict.signal != 0 && !failed.empty()) verdict.status = "failed";
    if (!failed.empty())
      verdict.reason = verdict.reason.empty() ? failed : failed + "; " + verdict.reason;
    if (verdict.reason.empty()) verdict.reason = cannot;
    return verdict;
  }

  void finish(const Stage& stage, const Verdict& verdict) {
    passed_ += verdict.status == "passed" ? 1 : 0;
    failed_ += verdict.status == "failed" ? 1 : 0;
    append({{"stage", stage.name},
            {"status", verdict.status},
            {"reason", verdict.reason},
            {"seconds", verdict.seconds}});
    render();
    std::string reason = verdict.reason.substr(0, 160);
    std::ranges::replace(reason, '\n', ' ');
    fmt::print("{:<20} {:<8} {:6.1f} s  {}\n", stage.name, verdict.status, verdict.seconds, reason);
    std::fflush(stdout);
  }

  const RunOptions& options_;
  Budget budget_;
  Time begin_;
  sigset_t before_{};
  Fd signals_;
  std::string stem_;
  std::optional<Record> record_;
  std::vector<Json> records_;
  int passed_ = 0, failed_ = 0, signal_ = 0;
};

}  // namespace

int run_stages(const RunOptions& options) {
  for (const auto& name : options.only) {
    if (std::ranges::find(stages(), name, &Stage::name) == stages().end()) {
      fmt::print(stderr, "mobula-gpu-check: no stage '{}'; --list prints their names\n", name);
      return 2;
    }
  }
  return Runner(options).run();
}

}  // namespace mobula::internal::gpu_check
