#include "cli/commands/start/symmetric.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/id.h"
#include "cli/command_line.h"
#include "cli/commands/start/symmetric_options.h"
#include "cli/exit_code.h"
#include "cli/output/help_renderer.h"
#include "cli/tool_client.h"
#include "deploy/launch_dir.h"
#include "deploy/own_address.h"
#include "deploy/process.h"
#include "deploy/rank_rendezvous.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::cli {
namespace {

namespace fs = std::filesystem;
using deploy::Command;
using deploy::LaunchDir;
using deploy::LaunchPosition;
using deploy::Process;
using deploy::RankClaim;
using deploy::RankNote;
using deploy::RankRendezvous;
using deploy::RunNote;
using Json = nlohmann::ordered_json;

constexpr const char* cluster_name = "symmetric";
constexpr Duration glance = 50ms;         // between two reads of the directory before the start
constexpr Duration later_glance = 250ms;  // while the program runs
constexpr Duration sign_of_life =
    1s;  // between two notes of a waiting rank; also makes NFS refresh
constexpr Duration head_interval = 5s;  // between two checks of the head
constexpr Duration stillness = 10s;     // after which a silent holder of a rank is considered dead
constexpr int head_silences = 3;        // after which the head is considered dead
constexpr Duration farewell = 5s;       // for the other ranks to leave, with their grace
constexpr int exit_cannot_run = 126;
constexpr int exit_no_program = 127;
constexpr std::size_t max_line = 4096;

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Thrown in this file alone: the end of this rank, with the message that is or was printed.
struct Ends {
  int code = exit_failed;
  std::string why{};
};

[[noreturn]] void end_with(int code, std::string why = {}) { throw Ends{code, std::move(why)}; }

class Rank {
 public:
  Rank(SymmetricOptions options, LaunchPosition position, LaunchDir own)
      : options_(std::move(options)), position_(std::move(position)), own_(std::move(own)) {}

  int run() {
    int code = exit_failed;
    try {
      watch_signals();
      code = position_.rank == 0 ? be_first() : be_another();
    } catch (const Ends& end) {
      if (!end.why.empty()) complain(failure(ErrorCode::unavailable, end.why));
      code = end.code;
      why_ = end.why.empty() ? last_words_ : end.why;
      if (position_.rank != 0) say("failed", why_);
    }
    take_down(code);
    return code;
  }

 private:
  // ---- rank 0 -----------------------------------------------------------------------------------

  int be_first() {
    open_meeting();
    claim_rank();
    if (meeting_) refuse_company();
    const auto address = head_address();
    start_service({"--head", "--bind", address, "--advertise", address});
    if (meeting_) {
      note_.token = hex_of(random_bits());
      note_.address = started_.value("address", std::string());
      auto key = read_file(key_path());
      auto left = key ? meeting_->leave_key(*key) : key.error();
      if (left) left = meeting_->say(note_);
      if (!left) end_with(exit_failed, left.error().text);
      wait_for_ranks();
    }
    return run_program();
  }

  std::string head_address() const {
    if (!options_.head_host.empty()) return options_.head_host;
    if (position_.size == 1) return "127.0.0.1";
    const auto here = host_name();
    std::vector<std::string> others;
    for (const auto& each : position_.hosts) {
      if (each != here && each != variable("SLURMD_NODENAME")) others.push_back(each);
    }
    return deploy::own_address_facing(others);
  }

  // Rejects another running launch that uses the same directory.
  void refuse_company() {
    const auto note = meeting_->read_note();
    if (note && !note->over && head_answers(*note)) {
      meeting_.reset();  // it belongs to the other launch
      end_with(exit_failed, fmt::format("symmetric: another launch uses the directory {}; separate "
                                        "them with --run NAME, or give "
                                        "another `--shared-folder`",
                                        directory_));
    }
    meeting_->clear();
  }

  void wait_for_ranks() {
    const Time until = monotonic_now() + options_.join_timeout;
    int next = 1;  // all ranks before it have joined
    for (;; watch(glance)) {
      for (; next < position_.size; ++next) {
        const auto rank = meeting_->of_rank(next);
        if (!rank || rank->token != note_.token ||
            (rank->state != "joined" && rank->state != "beside"))
          break;
      }
      if (next == position_.size) return;
      for (int each = next; each < position_.size; ++each) {
        const auto rank = meeting_->of_rank(each);
        if (rank && rank->token == note_.token && rank->state == "failed") {
          end_with(exit_failed, fmt::format("join rank {} on {}: {}", each, rank->host, rank->why));
        }
      }
      end_if_signaled();
      if (service_->ended())
        end_with(exit_failed, "symmetric: the head exited while ranks were joining");
      if (monotonic_now() >= until) end_with(exit_timed_out, missing_ranks());
    }
  }

  std::string missing_ranks() const {
    std::string names;
    int count = 0;
    for (int each = 1; each < position_.size; ++each) {
      const auto rank = meeting_->of_rank(each);
      if (rank && rank->token == note_.token &&
          (rank->state == "joined" || rank->state == "beside"))
        continue;
      if (++count > 10) continue;
      names += fmt::format("{}{}{}", names.empty() ? "" : ", ", each,
                           rank ? " (" + rank->state + " on " + rank->host + ")" : "");
    }
    return fmt::format(
        "symmetric: {} of {} ranks did not join in time: {}; check that all of them share the "
        "directory {}, and reach "
        "{}?",
        count, position_.size, names, directory_, note_.address);
  }

  int run_program() {
    Command command;
    command.words = options_.program;
    command.environment = {{"MOBULA_ADDRESS", started_.value("address", std::string())},
                           {"MOBULA_KEY_FILE", key_path()},
                           {"MOBULA_STATE_DIR", state_dir()}};
    auto started = Process::start(command);
    if (!started) {
      const bool missing = started.error().code == ErrorCode::not_found;
      end_with(missing ? exit_no_program : exit_cannot_run, started.error().text);
    }
    Process program = std::move(started).value();
    while (!program.ended()) {
      watch(1s);
      if (signal_ != 0) {
        const int number = std::exchange(signal_, 0);
        // A key pressed at the terminal has signalled the program as well.
        if (!from_terminal_) program.signal(number);
        ending_ = true;
      }
      if (service_ && service_->ended()) {
        std::fprintf(stderr, "mobula: the head exited with code %d; ending the program\n",
                     *service_->ended());
        static_cast<void>(program.end(SIGTERM, options_.grace));
        end_with(exit_failed);
      }
    }
    return *program.ended();
  }

  // ---- other ranks ------------------------------------------------------------------------------

  int be_another() {
    open_meeting();
    claim_rank();
    wait_for_note();
    if (position_.local_rank != 0) {
      say("beside");
      return stay();
    }
    const auto key = own_.path() + "/cluster.key";
    auto text = meeting_->key();
    auto written = text ? write_file(key, *text, 0600) : text.error();
    if (!written) end_with(exit_failed, written.error().text);
    start_service({"--address", note_.address, "--key", key});
    say("joined");
    return stay();
  }

  // Waits for the note of this launch and for its head.
  void wait_for_note() {
    const Time until = monotonic_now() + options_.join_timeout;
    Time said;
    for (;; watch(glance)) {
      end_if_signaled();
      if (monotonic_now() >= until) {
        end_with(exit_timed_out, fmt::format("symmetric: no note of rank 0 in {} in time; check "
                                             "that all ranks share that directory",
                                             directory_));
      }
      if (said == Time() || monotonic_now() - said >= sign_of_life) {
        say("waiting");
        said = monotonic_now();
      }
      const auto note = meeting_->read_note();
      if (!note) {
        if (!path_exists(directory_)) come_again();
        continue;
      }
      if (note->over && position_.unique)
        end_with(exit_failed,
                 fmt::format("symmetric: rank 0 exited with code {} before all ranks joined",
                             note->code));
      if (note->over || !head_answers(*note)) continue;
      note_ = *note;
      return;
    }
  }

  // The directory disappeared while this rank waited: an earlier launch has ended.
  void come_again() {
    if (position_.unique)
      end_with(exit_failed,
               fmt::format(
                   "symmetric: rank 0 exited and removed the directory {} before all ranks joined",
                   directory_));
    open_meeting();
    holds_claim_ = false;
    claim_rank();
  }

  int stay() {
    int silences = 0;
    Time polled_at = monotonic_now();
    for (;; watch(later_glance)) {
      if (signal_ != 0) ending_ = true;
      end_if_signaled();
      if (service_ && service_->ended()) {
        end_with(exit_failed, fmt::format("symmetric: the agent of rank {} exited with code {}: {}",
                                          position_.rank, *service_->ended(), last_words_));
      }
      const auto note = meeting_->read_note();
      if (note && (note->over || note->token != note_.token)) return exit_done;
      if (monotonic_now() - polled_at < head_interval) continue;
      silences = head_answers(note_) ? 0 : silences + 1;
      polled_at = monotonic_now();
      if (silences == head_silences)
        end_with(exit_unreachable,
                 fmt::format("symmetric: the head at {} no longer replies", note_.address));
    }
  }

  bool head_answers(const RunNote& note) const {
    const auto text = meeting_->key();
    if (!text || note.address.empty()) return false;
    const auto path = own_.path() + "/seen.key";
    if (!write_file(path, *text, 0600)) return false;
    auto key = load_key_file(path);
    if (!key) return false;
    auto client = ToolClient::open({note.address, *key, path});
    return client ? static_cast<bool>(client->request("ping", {}, {}, 2s)) : false;
  }

  // ---- all ranks --------------------------------------------------------------------------------

  void open_meeting() {
    if (position_.size == 1) return;
    auto shared = options_.shared_dir;
    for (const char* name : {"MOBULA_SHARED_FOLDER", "SLURM_SUBMIT_DIR"}) {
      if (shared.empty()) shared = variable(name).value_or("");
    }
    std::error_code code;
    if (shared.empty()) shared = fs::current_path(code).string();
    directory_ = shared + "/.mobula-" + position_.run;
    auto meeting = RankRendezvous::at(directory_);
    if (!meeting) end_with(exit_failed, meeting.error().text);
    meeting_ = std::move(meeting).value();
  }

  // Launches that the launcher does not distinguish must not mix: each rank is one process.
  void claim_rank() {
    if (!meeting_ || position_.unique) return;
    own_claim_.self = hex_of(random_bits());
    own_claim_.process = ProcessIdentity::of_this_process();
    own_claim_.processes_of = deploy::own_processes();
    auto seen = meeting_->claim_of(position_.rank);
    const Time until = monotonic_now() + stillness;
    while (!meeting_->claim_rank(position_.rank, own_claim_)) {
      const auto now = meeting_->claim_of(position_.rank);
      if (now && seen && (now->self != seen->self || now->beat != seen->beat)) end_for_company();
      if (!seen) seen = now;
      const bool gone = seen && deploy::is_gone(*seen);
      if (seen && (gone || monotonic_now() >= until))
        meeting_->release_rank(position_.rank, seen->self);
      if (gone) seen.reset();
      if (monotonic_now() >= until + stillness) end_for_company();
      watch(later_glance);
      if (signal_ != 0) meeting_.reset();  // the rank may belong to another launch
      end_if_signaled();
    }
    holds_claim_ = true;
  }

  [[noreturn]] void end_for_company() {
    meeting_.reset();  // it belongs to the other launch
    end_with(
        exit_failed,
        fmt::format(
            "symmetric: another launch uses the directory {} and has a rank {}; separate them with "
            "--run NAME, or give another `--shared-folder`",
            directory_, position_.rank));
  }

  // Refreshes the note once per second while this rank waits.
  void keep_claim() {
    if (!holds_claim_ || monotonic_now() - beaten_ < sign_of_life) return;
    beaten_ = monotonic_now();
    holds_claim_ = meeting_->beat(position_.rank, own_claim_);
    if (!holds_claim_ && !closing_) end_for_company();
  }

  void say(const std::string& state, const std::string& why = {}, bool gone = false) {
    if (!meeting_ || !path_exists(directory_)) return;
    const auto said = meeting_->say(position_.rank, {note_.token, host_name(), state, why, gone});
    if (!said && !gone)
      std::fprintf(stderr, "mobula: rank %d: %s\n", position_.rank, said.error().text.c_str());
  }

  std::string state_dir() const { return own_.path() + "/state"; }
  std::string key_path() const {
    return fmt::format("{}/{}/{}.key", state_dir(), cluster_name, cluster_name);
  }

  void start_service(std::vector<std::string> flags) {
    Command command;
    command.words = {"/proc/self/exe", "start",      "--block",     "-o",       "jsonl",
                     "--name",         cluster_name, "--state-dir", state_dir()};
    for (auto* const each : {&flags, &options_.node_flags})
      command.words.insert(command.words.end(), each->begin(), each->end());
    for (const auto& each : processors()) command.words.push_back(each);
    // The runtime directory of the submitting machine may not exist here.
    const auto runtime = variable("XDG_RUNTIME_DIR");
    if (runtime && ::access(runtime->c_str(), W_OK) != 0)
      command.environment["XDG_RUNTIME_DIR"] = "";
    command.pipes_output = command.pipes_errors = command.own_group = true;
    auto started = Process::start(command);
    if (!started) end_with(exit_failed, started.error().text);
    service_.emplace(std::move(started).value());
    const Time until = monotonic_now() + options_.join_timeout;
    for (;;) {
      watch(1s);
      const auto line = service_output_.find('\n');
      if (line != std::string::npos) {
        started_ = Json::parse(service_output_.substr(0, line), nullptr, false);
        if (started_.is_object()) return;
        end_with(exit_failed, "symmetric: unexpected output of mobula start: " +
                                  service_output_.substr(0, line));
      }
      end_if_signaled();
      if (const auto code = service_->ended()) {
        watch(Duration(0));  // reads its last lines
        end_with(*code == 0 ? static_cast<int>(exit_failed) : *code);
      }
      if (monotonic_now() >= until)
        end_with(exit_timed_out, "symmetric: mobula start was not ready in time");
    }
  }

  // A Slurm step may have some of the processors of a machine, whether or not it is confined to
  // them.
  std::vector<std::string> processors() const {
    for (const auto& each : options_.node_flags) {
      if (each == "--num-cpus" || each.starts_with("--num-cpus=")) return {};
    }
    const auto given = variable("SLURM_CPUS_ON_NODE");
    return given && position_.size > 1 && position_.launcher == "Slurm"
               ? std::vector<std::string>{"--num-cpus", *given}
               : std::vector<std::string>{};
  }

  void watch_signals() {
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) ::sigaddset(&signals, number);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    ::signal(SIGCHLD, SIG_DFL);
    signals_ = Fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) end_with(exit_failed, errno_failure("create a signal descriptor", errno).text);
  }

  // Waits for a signal, the end of a child, or output of the service, at most `span`.
  void watch(Duration span) {
    std::array<pollfd, 3> items{{{signals_.get(), POLLIN, 0},
                                 {service_ ? service_->output() : -1, POLLIN, 0},
                                 {service_ ? service_->errors() : -1, POLLIN, 0}}};
    ::poll(items.data(), items.size(), static_cast<int>(span / 1ms));
    keep_claim();
    signalfd_siginfo signal{};
    while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
      const int number = static_cast<int>(signal.ssi_signo);
      if (number == SIGCHLD) continue;
      signal_ = number;
      from_terminal_ = signal.ssi_code > 0;
    }
    if (!service_) return;
    service_output_ += service_->take_output();
    if (service_output_.size() > max_line && service_output_.find('\n') == std::string::npos)
      service_output_.clear();
    pass_on_errors(service_->take_errors());
  }

  // Forwards whole lines, prefixed with the rank if there are several ranks.
  void pass_on_errors(const std::string& text) {
    words_ += text;
    for (auto end = words_.find('\n'); end != std::string::npos; end = words_.find('\n')) {
      last_words_ = words_.substr(0, end);
      words_.erase(0, end + 1);
      if (position_.size > 1) {
        std::fprintf(stderr, "rank %d: %s\n", position_.rank, last_words_.c_str());
      } else {
        std::fprintf(stderr, "%s\n", last_words_.c_str());
      }
    }
    if (words_.size() > max_line) words_.erase(0, words_.size() - max_line);
  }

  void end_if_signaled() const {
    if (signal_ != 0) end_with(128 + signal_);
  }

  // The other ranks leave before the head ends, because they sign off from it.
  void take_down(int code) {
    closing_ = true;
    const bool was_signaled = signal_ != 0 || ending_;
    bool all_have_left = position_.rank != 0;
    if (position_.rank == 0 && meeting_) {
      note_.over = true;
      note_.code = code;
      static_cast<void>(meeting_->say(note_));
      const Time until = monotonic_now() + options_.grace + farewell;
      while (!(all_have_left = others_have_left()) && monotonic_now() < until) watch(glance);
    }
    if (service_) {
      // A finished program leaves no calls to wait for.
      static_cast<void>(service_->end(was_signaled ? SIGTERM : SIGINT, options_.grace));
      watch(Duration(0));
      service_.reset();
    }
    const bool others_came =
        meeting_ && own_claim_.beat > 0 && !meeting_->beat(position_.rank, own_claim_);
    if (meeting_ && !own_claim_.self.empty())
      meeting_->release_rank(position_.rank, own_claim_.self);
    if (position_.rank == 0 && meeting_ && !others_came) meeting_->close(all_have_left);
    if (position_.rank != 0)
      say(code == exit_done ? "left" : "failed", why_.empty() ? last_words_ : why_, true);
  }

  bool others_have_left() const {
    for (int each = 1; each < position_.size; ++each) {
      const auto rank = meeting_->of_rank(each);
      // A rank that never joined need not leave, unless the launch is unique: then it is on its
      // way.
      if (!position_.unique && (!rank || rank->token != note_.token)) continue;
      if (!rank || !rank->gone) return false;
    }
    return true;
  }

  SymmetricOptions options_;
  LaunchPosition position_;
  LaunchDir own_;
  std::string directory_;
  std::optional<RankRendezvous> meeting_;  // absent: this rank is alone
  RunNote note_;
  Fd signals_;
  std::optional<Process> service_;  // `mobula start --block`
  Json started_ = Json::object();
  std::string service_output_;  // output of the service
  std::string words_;           // its stderr: an incomplete line
  std::string last_words_;
  std::string why_;  // reason for the end of this rank
  int signal_ = 0;   // signal that this process received
  bool from_terminal_ = false;
  bool ending_ = false;
  RankClaim own_claim_{};
  bool holds_claim_ = false;
  bool closing_ = false;
  Time beaten_{};
};

}  // namespace

int symmetric(int argc, char** argv) {
  auto options = parse_symmetric({argv + 2, argv + argc});
  if (!options) return complain(options.error());
  if (options->help) {
    std::fputs(help_text(command_tree(), {"symmetric"}).value().c_str(), stdout);
    return exit_done;
  }
  auto position = deploy::position_of(variable, options->position);
  if (!position) return complain(position.error());
  auto own = LaunchDir::make();
  if (!own) return complain(own.error());
  return Rank(std::move(options).value(), std::move(position).value(), std::move(own).value())
      .run();
}

}  // namespace mobula::internal::cli
