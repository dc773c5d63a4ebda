#include "cli/commands/start/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/text/json_writer.h"
#include "base/time.h"
#include "cli/child.h"
#include "cli/commands/start/run_record.h"
#include "cli/commands/start/service_notice.h"
#include "cli/exit_code.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

// After the driver exits, no process waits for an orderly end.
constexpr Duration together_timeout = 1s;
constexpr Duration autoscaler_backoff = 2s;  // between two starts of the autoscaler
constexpr int signal_codes = 128;            // added to the signal that terminated a process
constexpr int poll_ms = 20;  // in case the end of a child coincides with another signal

struct StartFault {
  int exit;
  std::string why;
};

class Supervisor {
 public:
  Supervisor(const Programs& programs, const SupervisorPlan& plan, const Report& report)
      : programs_(programs), plan_(plan), report_(report) {}

  // The agent probes its machine while the head tests itself.
  std::optional<StartFault> start() {
    if (auto watched = watch_signals(); !watched)
      return StartFault{exit_failed, watched.error().text};
    AgentPlan agent = plan_.agent.value_or(AgentPlan{});
    if (plan_.head) {
      if (auto fault = start_head()) return fault;
      agent.head_address = message_.value("address", std::string());
      const auto& head = *plan_.head;
      agent.key_file = head.insecure ? "" : fmt::format("{}/{}.key", head.directory, head.cluster);
    }
    const bool requests_head = plan_.head && plan_.agent && plan_.refuses_agent;
    if (requests_head) {
      if (auto fault = wait_for_message(*head_)) return fault;
      if (auto fault = refuse_agent(agent.head_address)) return fault;
    }
    if (plan_.agent) {
      if (auto fault = start_agent(agent)) return fault;
    }
    return plan_.head && !requests_head ? wait_for_message(*head_) : std::nullopt;
  }

  // Cleans up after a failed start.
  void abandon() {
    end_now();
    if (head_) head_->wait();
  }

  const Json& message() const { return message_; }

  // Runs until all children have exited. Returns the exit code of the first that failed.
  int run() {
    notice_.ready(fmt::format("head at {}", message_.value("address", std::string())));
    for (;;) {
      reap();
      if (!head_ && !agent_ && !restart_at_) return code_;
      start_autoscaler();
      if (signal_ != 0) {
        notice_.ending();
        pass_on();
      } else {
        wait_for_news(-1, until_next_ms());
        restart_head();
      }
    }
  }

 private:
  Result<void> watch_signals() {
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) ::sigaddset(&signals, number);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    ::signal(SIGCHLD, SIG_DFL);  // an ignored SIGCHLD would discard exit codes
    signals_ = Fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) return errno_failure("create a signal descriptor", errno);
    return {};
  }

  // Waits until the head listens.
  std::optional<StartFault> start_head() {
    if (auto started = fork_head(); !started) return StartFault{exit_failed, started.error().text};
    return wait_for_message(*head_);
  }

  Result<void> fork_head() {
    const auto body = [this](const Child::Notify& notify) {
      return programs_.head(
          *plan_.head,
          [&](const HeadFile& file) {
            notify(json_text(Json{{"address", file.address}}), false);
          },
          [&](const HeadFile& file, const std::vector<std::string>& warnings) {
            Json notice{{"address", file.address}, {"warnings", warnings}};
            if (!file.http_url.empty())
              notice["http"] = {{"url", file.http_url}, {"token_file", file.http_token_file}};
            notify(json_text(notice), true);
          });
    };
    auto child = Child::start(body);
    if (!child) return child.error();
    head_.emplace(std::move(child).value());
    head_started_at_ = monotonic_now();
    return {};
  }

  // Starts the autoscaler, also after it has exited.
  void start_autoscaler() {
    if (!plan_.autoscaler || autoscaler_ || ending_ || signal_ != 0) return;
    if (monotonic_now() < autoscaler_at_) return;
    autoscaler_at_ = monotonic_now() + autoscaler_backoff;
    auto child = Child::start([this](const Child::Notify& notify) {
      notify("{}", true);
      return plan_.autoscaler();
    });
    if (child) autoscaler_.emplace(std::move(child).value());
  }

  void reap_autoscaler() {
    const auto code = autoscaler_ ? autoscaler_->ended() : std::nullopt;
    if (!code) return;
    autoscaler_.reset();
    if (ending_) return;
    std::fprintf(stderr, "mobula: the autoscaler exited with code %d; restarting it\n", *code);
  }

  // Schedules a restart of the head if `code` indicates a crash.
  bool schedules_restart(int code) {
    if (ending_ || plan_.together || !is_crash(code)) return false;
    const Time now = monotonic_now();
    const bool first = now - head_started_at_ > plan_.restart_backoff_max;
    restart_backoff_ = first || restart_backoff_ == Duration(0)
                           ? plan_.restart_backoff_initial
                           : std::min(2 * restart_backoff_, plan_.restart_backoff_max);
    restart_at_ = now + restart_backoff_;
    std::fprintf(stderr, "mobula: the head crashed with signal %d; restarting it in %lld ms\n",
                 code - signal_codes, static_cast<long long>(restart_backoff_ / 1ms));
    return true;
  }

  void restart_head() {
    if (!restart_at_ || monotonic_now() < *restart_at_) return;
    restart_at_.reset();
    restarted_ = true;
    if (auto started = fork_head(); !started) {
      std::fprintf(stderr, "mobula: restart the head: %s\n", started.error().text.c_str());
      restart_at_ = monotonic_now() + plan_.restart_backoff_max;
    }
  }

  static bool is_crash(int code) {
    constexpr std::array crashes{SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS, SIGTRAP};
    return std::find(crashes.begin(), crashes.end(), code - signal_codes) != crashes.end();
  }

  std::optional<StartFault> refuse_agent(const std::string& head_address) {
    auto child = Child::start([&](const Child::Notify& notify) {
      const std::string why = plan_.refuses_agent(head_address);
      notify(json_text(Json{{"refused", why}}), true);
      return exit_done;
    });
    const auto notice = child ? child->next_message() : std::nullopt;
    const auto json = Json::parse(notice.value_or(""), nullptr, false);
    const std::string reason = json.is_object() ? json.value("refused", std::string()) : "";
    if (reason.empty()) return std::nullopt;
    return StartFault{exit_refused, reason};
  }

  std::optional<StartFault> start_agent(const AgentPlan& plan) {
    const auto body = [this, &plan](const Child::Notify& notify) {
      const auto ready = [&](const AgentFile& file) {
        notify(json_text(Json{{"address", plan.head_address},
                              {"socket", file.socket},
                              {"node_id", file.node.hex()}}),
               true);
      };
      return programs_.agent(plan, ready, [&](const std::string& why) {
        notify(json_text(Json{{"waiting", why}}), false);
      });
    };
    auto child = Child::start(body, programs_.under_shim);
    if (!child) return StartFault{exit_failed, child.error().text};
    agent_.emplace(std::move(child).value());
    return wait_for_message(*agent_);
  }

  // If the head exits, its message explains why the agent waits.
  std::optional<StartFault> wait_for_message(Child& child) {
    const bool is_agent = agent_ && &child == &*agent_;
    const Time quiet_until = monotonic_now() + plan_.unsaid;
    bool quiet = is_agent;
    for (;;) {
      const auto quiet_ms =
          std::chrono::ceil<std::chrono::milliseconds>(quiet_until - monotonic_now()).count();
      const bool has_report = wait_for_news(
          child.report_fd(), quiet ? static_cast<int>(std::max<std::int64_t>(0, quiet_ms)) : -1);
      if (signal_ != 0) {
        return StartFault{exit_interrupted,
                          "start: interrupted; all started processes have ended, no agent runs"};
      }
      if (!has_report && head_ && head_->ended()) return fault_of(*head_, "the head");
      if (!has_report && quiet && monotonic_now() >= quiet_until) {
        quiet = false;
        // The cause may be a name server or a device that does not respond.
        if (report_.waiting)
          report_.waiting("agent: no report yet; its log is " + plan_.agent->log_file);
      }
      if (!has_report) continue;
      quiet = false;
      const auto notice = child.next_message();
      if (!notice) break;
      const auto json = Json::parse(*notice, nullptr, false);
      if (json.contains("waiting")) {
        if (report_.waiting) report_.waiting(json.value("waiting", std::string()));
        continue;
      }
      message_.update(json);
      return std::nullopt;
    }
    return fault_of(child, head_ && &child == &*head_ ? "the head" : "the agent");
  }

  static StartFault fault_of(Child& child, const std::string& what) {
    const int code = child.wait();
    const std::string words = child.last_words();
    return {code == exit_done || code > exit_not_found ? exit_failed : code,
            words.empty()
                ? fmt::format("start {}: exited with code {} before it was ready", what, code)
                : words};
  }

  // Waits for a signal, the end of a life descriptor, or input at `ready`. Returns whether there is
  // input.
  bool wait_for_news(int ready, int timeout_ms) {
    const int starter = ready >= 0 ? plan_.starter_fd : -1;
    std::array<pollfd, 4> items{{{signals_.get(), POLLIN, 0},
                                 {life_over_ ? -1 : plan_.life_fd, POLLIN, 0},
                                 {ready, POLLIN, 0},
                                 {starter, POLLIN, 0}}};
    if (::poll(items.data(), items.size(), timeout_ms) < 0) return false;
    signalfd_siginfo signal{};
    while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
      const int number = static_cast<int>(signal.ssi_signo);
      if (number != SIGCHLD && number != SIGHUP) signal_ = number;
    }
    if ((items[1].revents & (POLLIN | POLLHUP)) != 0) {
      char byte = 0;
      if (::read(plan_.life_fd, &byte, 1) <= 0) {
        life_over_ = true;
        signal_ = SIGTERM;
      }
    }
    if (items[3].revents != 0) signal_ = SIGTERM;
    return (items[2].revents & (POLLIN | POLLHUP)) != 0;
  }

  // Notifies the service manager's watchdog if there is one. Returns the time until the next
  // notification.
  int until_alive_ms() {
    const auto every = notice_.alive_every();
    if (!every) return -1;
    if (monotonic_now() >= alive_at_) {
      notice_.alive();
      alive_at_ = monotonic_now() + *every;
    }
    return static_cast<int>(
        std::chrono::ceil<std::chrono::milliseconds>(alive_at_ - monotonic_now()).count());
  }

  // Returns the earliest of that time and the restarts; -1 if none is due.
  int until_next_ms() {
    int next = until_alive_ms();
    const auto take = [&next](Time at) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(at - monotonic_now());
      const int ms = static_cast<int>(std::max<std::int64_t>(0, left.count()));
      next = next < 0 ? ms : std::min(next, ms);
    };
    if (restart_at_) take(*restart_at_);
    if (plan_.autoscaler && !autoscaler_ && !ending_) take(autoscaler_at_);
    return next;
  }

  // The agent stops first, because it signs off from the head.
  void pass_on() {
    const int number = std::exchange(signal_, 0);
    ending_ = true;
    restart_at_.reset();
    if (autoscaler_) autoscaler_->signal(SIGTERM);
    if (plan_.together) return end_now();
    if (agent_) {
      agent_->signal(number);
    } else if (head_) {
      head_->signal(SIGTERM);
    }
  }

  void end_now() {
    ending_ = true;
    if (agent_) {
      agent_->signal(SIGINT);
      const Time deadline = monotonic_now() + together_timeout;
      while (!agent_->ended() && monotonic_now() < deadline) wait_for_news(-1, poll_ms);
      agent_.reset();  // kills the processes that have not exited
    }
    if (head_) head_->signal(SIGTERM);
  }

  void reap() {
    reap_autoscaler();
    for (auto* const child : {&agent_, &head_}) {
      const auto code = *child ? (*child)->ended() : std::nullopt;
      if (!code) continue;
      const std::string words = restarted_ ? (*child)->last_words() : std::string();
      child->reset();
      if (child == &head_ && schedules_restart(*code)) continue;
      if (code_ == 0) code_ = *code;
      if (ending_ && head_) head_->signal(SIGTERM);
      if (ending_) continue;
      const char* what = child == &agent_ ? "agent" : "head";
      std::fprintf(stderr, "mobula: the %s exited with code %d%s%s\n", what, *code,
                   words.empty() ? "" : ": ", words.c_str());
      if (plan_.together) signal_ = SIGTERM;
    }
  }

  const Programs& programs_;
  const SupervisorPlan& plan_;
  const Report& report_;
  const ServiceNotice notice_ =
      plan_.is_service ? ServiceNotice::of_environment() : ServiceNotice();
  Time alive_at_;
  Fd signals_;
  std::optional<Child> head_;
  std::optional<Child> agent_;  // ends before the head
  std::optional<Child> autoscaler_;
  Time autoscaler_at_;  // next start
  Json message_ = Json::object();
  Time head_started_at_;
  std::optional<Time> restart_at_;
  Duration restart_backoff_{0};
  bool restarted_ = false;
  int signal_ = 0;  // latest signal, not passed on yet
  bool life_over_ = false;
  bool ending_ = false;
  int code_ = 0;
};

}  // namespace

int supervise(const Programs& programs, const SupervisorPlan& plan, const Report& report) {
  Supervisor supervisor(programs, plan, report);
  if (const auto fault = supervisor.start()) {
    supervisor.abandon();
    report.failed(json_text(Json{{"exit", fault->exit}, {"error", fault->why}}));
    return fault->exit;
  }
  std::string record_path;
  if (plan.recorded) {
    const auto record = RunRecord::of_this_process(plan.head.has_value(), plan.has_shim);
    if (auto saved = save(record, plan.directory); !saved) {
      report.failed(json_text(Json{{"exit", exit_failed}, {"error", saved.error().text}}));
      return exit_failed;
    }
    record_path = fmt::format("{}/running/{}.json", plan.directory, record.pid);
  }
  report.ready(json_text(supervisor.message()));
  const int code = supervisor.run();
  if (!record_path.empty()) ::unlink(record_path.c_str());
  return code;
}

}  // namespace mobula::internal::cli
