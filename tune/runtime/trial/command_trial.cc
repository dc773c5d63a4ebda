// A trial that runs a program: its reports are lines of a socket, and its exit is the result.
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include <mobula/detail/tune_trainable.h>
#include <mobula/errors.h>
#include <mobula/tune/trial.h>

#include "base/fd.h"
#include "tune/api/core_values.h"
#include "tune/runtime/trial/child_program.h"
#include "tune/runtime/trial/report_line.h"
#include "tune/runtime/trial/trial_command_line.h"
#include "tune/store/config_json.h"

namespace mobula::tune::detail {

using internal::Fd;
using internal::tune::ChildProgram;

namespace {

// Shorter than the time after which the driver ends the process of a stopped trial.
constexpr std::chrono::seconds terminate_grace(3);
constexpr std::size_t kept_errors = 4096;  // bytes of the standard error output

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

// Splits a stream of bytes into lines.
class LineBuffer {
 public:
  void add(std::string_view bytes) { rest_ += bytes; }
  // The next complete line.
  std::optional<std::string> take() {
    const std::size_t end = rest_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = rest_.substr(0, end);
    rest_.erase(0, end + 1);
    return line;
  }
  // The text behind the last line.
  std::string take_rest() { return std::exchange(rest_, {}); }
  std::size_t size() const { return rest_.size(); }

 private:
  std::string rest_;
};

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

}  // namespace

// One run of the program.
class CommandRun {
 public:
  CommandRun(const TrialStart& start, const Config& config, int stop_fd)
      : start_(start), stop_fd_(stop_fd), program_(start.command.argv.front()) {
    auto child = ChildProgram::start(plan(config));
    if (!child) throw Error(child.error().text);
    child_.emplace(std::move(*child));
  }

  // Throws the failure of the program, or TrialStopped.
  void run() {
    try {
      while (wait()) {
      }
      finish();
    } catch (const TrialStopped&) {
      child_->answer("stop");
      child_->terminate(terminate_grace);
      throw;
    }
  }

 private:
  internal::tune::ProgramStart plan(const Config& config) const {
    const auto core = internal::tune::core_config(config);
    const std::string file = start_.directory + "/config.json";
    std::ofstream(file) << internal::tune::to_json(core) << "\n";
    internal::tune::ProgramStart made{.report_variable = "MOBULA_TUNE_FD",
                                      .read_output = start_.command.reports_on_stdout};
    for (const std::string& argument : start_.command.argv)
      if (auto text = internal::tune::with_parameters(argument, config))
        made.argv.push_back(std::move(*text));
    Environment own{{"MOBULA_TUNE_CONFIG", file},
                    {"MOBULA_TUNE_DIRECTORY", start_.directory},
                    {"MOBULA_TUNE_EXPERIMENT", start_.experiment},
                    {"MOBULA_TUNE_TRIAL", std::to_string(start_.trial)},
                    {"MOBULA_TUNE_ATTEMPT", std::to_string(start_.attempt)},
                    {"MOBULA_TUNE_SEED", std::to_string(start_.seed)},
                    {"MOBULA_TUNE_CHECKPOINT", start_.checkpoint}};
    for (const auto& [name, text] : start_.command.env)
      if (auto value = internal::tune::with_parameters(text, config)) own[name] = *value;
    for (char** each = ::environ; *each != nullptr; ++each) {
      const std::string entry = *each;
      if (!own.contains(entry.substr(0, entry.find('=')))) made.environment.push_back(entry);
    }
    for (const auto& [name, value] : own) made.environment.push_back(name + "=" + value);
    return made;
  }

  // Reads until the program exits; false after its exit.
  bool wait() {
    std::array<pollfd, 5> waited{};
    const std::array<int, 5> fds{child_->exit_fd(), stop_fd_, child_->report_fd(),
                                 child_->output_fd(), child_->error_fd()};
    for (std::size_t i = 0; i < fds.size(); ++i)
      waited[i] = {.fd = closed_[i] ? -1 : fds[i], .events = POLLIN, .revents = 0};
    if (::poll(waited.data(), waited.size(), -1) < 0) return errno == EINTR;
    if (waited[1].revents != 0) throw TrialStopped();
    if (waited[4].revents != 0) closed_[4] = !read_errors();
    if (waited[3].revents != 0) closed_[3] = !read_output();
    if (waited[2].revents != 0) closed_[2] = !read_reports();
    return waited[0].revents == 0;
  }

  // Takes the output from before the exit, and the status.
  void finish() {
    read_errors();
    read_output();
    read_reports();
    if (const std::string rest = reports_.take_rest(); !is_blank(rest)) report(rest);
    if (const std::string rest = output_.take_rest(); !rest.empty()) take_output(rest);
    const int status = child_->wait();
    if (WIFSIGNALED(status))
      throw Error(fmt::format("program {}: terminated by {}{}", program_,
                              signal_name(WTERMSIG(status)), last_errors()));
    if (WEXITSTATUS(status) != 0)
      throw Error(
          fmt::format("program {}: exit code {}{}", program_, WEXITSTATUS(status), last_errors()));
    if (count_ == 0 && start_.iteration == 0)
      throw Error(
          fmt::format("program {}: exit code 0 without a report; write a line such as "
                      "{{\"loss\": 0.5}} to {}",
                      program_,
                      start_.command.reports_on_stdout ? "the standard output"
                                                       : "the descriptor in MOBULA_TUNE_FD"));
  }

  // Calls `take` with all bytes that can be read. False at the end of the stream.
  template <class Take>
  bool read_all(int fd, const Take& take) {
    std::array<char, 16384> part{};
    for (;;) {
      const auto count = ::read(fd, part.data(), part.size());
      if (count == 0) return false;
      if (count < 0) return errno == EAGAIN || errno == EINTR;
      take(std::string_view(part.data(), static_cast<std::size_t>(count)));
    }
  }

  bool read_errors() {
    return read_all(child_->error_fd(), [&](std::string_view bytes) {
      write_through(STDERR_FILENO, bytes);
      errors_ += bytes;
      if (errors_.size() > 2 * kept_errors) errors_.erase(0, errors_.size() - kept_errors);
    });
  }

  bool read_output() {
    if (child_->output_fd() < 0) return false;
    return read_all(child_->output_fd(), [&](std::string_view bytes) {
      output_.add(bytes);
      while (const auto line = output_.take()) take_output(*line + "\n");
      // Output without lines, such as binary data.
      if (output_.size() > internal::tune::max_report_line)
        write_through(STDOUT_FILENO, output_.take_rest());
    });
  }

  // A line of the standard output is a report if it is a JSON object, and otherwise text.
  void take_output(const std::string& line) {
    const std::size_t first = line.find_first_not_of(" \t");
    if (first != std::string::npos && line[first] == '{')
      if (const auto parsed = internal::tune::parse_report_line(line)) return submit(*parsed);
    write_through(STDOUT_FILENO, line);
  }

  bool read_reports() {
    return read_all(child_->report_fd(), [&](std::string_view bytes) {
      reports_.add(bytes);
      while (const auto line = reports_.take())
        if (!is_blank(*line)) report(*line);
      if (reports_.size() > internal::tune::max_report_line)
        throw Error(
            fmt::format("program {}: report {}: more than {} bytes without the end of a "
                        "line, which begins with '{}'",
                        program_, count_ + 1, internal::tune::max_report_line,
                        internal::tune::printable(reports_.take_rest(), 40)));
    });
  }

  void report(const std::string& line) {
    const auto parsed = internal::tune::parse_report_line(line);
    if (!parsed)
      throw Error(
          fmt::format("program {}: report {}: {}", program_, count_ + 1, parsed.error().text));
    submit(*parsed);
  }

  // Blocks until the decision, and passes it to the program.
  void submit(const internal::tune::ReportLine& line) {
    ++count_;
    tune::report(line.metrics, {.checkpoint = line.checkpoint});
    child_->answer("continue");
  }

  static void write_through(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const auto count = ::write(fd, bytes.data(), bytes.size());
      if (count < 0 && errno != EINTR) return;
      if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  // The last line of the standard error output.
  std::string last_errors() const {
    const std::size_t end = errors_.find_last_not_of(" \t\r\n");
    if (end == std::string::npos) return {};
    const std::size_t before = errors_.rfind('\n', end);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    return ": " +
           internal::tune::printable(std::string_view(errors_).substr(begin, end + 1 - begin));
  }

  const TrialStart& start_;
  const int stop_fd_;
  const std::string program_;
  std::optional<ChildProgram> child_;
  LineBuffer reports_, output_;
  std::string errors_;
  std::int64_t count_ = 0;        // reports
  std::array<bool, 5> closed_{};  // ended streams, in the order of wait()
};

struct CommandTrial::StopSignal {
  Fd event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

CommandTrial::CommandTrial() : stop_(std::make_unique<StopSignal>()) {}
CommandTrial::~CommandTrial() = default;

void CommandTrial::stop_requested() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_->event.get(), &one, sizeof(one));
}

void CommandTrial::body(const Config& config) {
  // A process that runs a second trial has the signal of the first one.
  std::uint64_t earlier = 0;
  [[maybe_unused]] const auto read = ::read(stop_->event.get(), &earlier, sizeof(earlier));
  CommandRun(trial_start(), config, stop_->event.get()).run();
}

}  // namespace mobula::tune::detail
