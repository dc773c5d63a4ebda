#include "cli/commands/jobs/job_commands.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/id.h"
#include "cli/commands/jobs/job_upload.h"
#include "cli/commands/state_commands.h"
#include "cli/exit_code.h"
#include "cli/find_cluster.h"
#include "cli/head_query.h"
#include "cli/output/output.h"
#include "cli/output/terminal_guard.h"
#include "cli/tool_client.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;
using Output = std::vector<std::byte>;

constexpr Duration shortest_interval = 2ms;
constexpr Duration longest_interval = 200ms;
constexpr Duration stdout_poll = 50ms;
constexpr Duration last_output_timeout = 1s;  // for output after an interruption, and at the end
constexpr Duration head_timeout = 60s;        // for a head that restarts
constexpr std::int64_t tail_bytes = 1 << 20;

volatile std::sig_atomic_t interruptions = 0;

// The message of an immediate exit, which names the job. Written before signals can arrive, and
// read by their handler.
char last_words[256] = "";
volatile std::sig_atomic_t last_words_size = 0;

std::string follow_or_end(const std::string& job) {
  return fmt::format("`mobula wait {0}` follows it, `mobula job stop {0}` ends it", job);
}

void leave_behind(const std::string& job) {
  last_words_size = 0;
  const auto end =
      fmt::format_to_n(last_words, sizeof last_words,
                       "mobula: exiting; job {} continues if the head has received it: {}\n", job,
                       follow_or_end(job));
  last_words_size = static_cast<std::sig_atomic_t>(std::min(end.size, sizeof last_words));
}

void interrupted(int number) {
  if (interruptions != 0) {
    (void)!::write(STDERR_FILENO, last_words, static_cast<std::size_t>(last_words_size));
    ::_exit(128 + number);
  }
  interruptions = number;
}

void take_interruptions() {
  struct sigaction action {};
  action.sa_handler = interrupted;  // without SA_RESTART: interrupts pauses
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

struct ReadLogReply {
  Json job;
  std::uint64_t end = 0;
  std::uint64_t from = 0;
  std::string fault;
  Output bytes;
};

bool has_ended(const Json& job) {
  const std::string state = job.value("state", std::string());
  return state != "PENDING" && state != "RUNNING";
}

// Returns the program's own code, 128 + N for a signal, or 1 without either.
int exit_code_of_job(const Json& job) {
  if (job.value("state", std::string()) == "SUCCEEDED") return exit_done;
  if (job["signal"].is_number()) return 128 + job["signal"].get<int>();
  if (job["exit_code"].is_number() && job["exit_code"].get<int>() != 0)
    return job["exit_code"].get<int>();
  return exit_failed;
}

// Output of a job for stdout. A terminal gets sanitized text unless --raw is given.
class JobOutput {
 public:
  explicit JobOutput(const CommandLine& line)
      : guarded_(!line.raw && ::isatty(STDOUT_FILENO) == 1) {}
  ~JobOutput() { end(); }
  JobOutput(const JobOutput&) = delete;
  JobOutput& operator=(const JobOutput&) = delete;
  enum class Written { all, interrupted, closed };

  void add(const Output& bytes) {
    if (discards_) {
      dropped_ += bytes.size();
      return;
    }
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    waiting_ += guarded_ ? guard_.pass(text) : std::string(text);
  }
  // `interrupted`: the remaining bytes wait, and the next call continues with them. With `timeout`,
  // output that makes no progress for that time is dropped.
  Written write(std::optional<Duration> timeout) {
    Time until = monotonic_now() + timeout.value_or(Duration(0));
    while (!waiting_.empty()) {
      if (!timeout && interruptions != 0) return Written::interrupted;
      pollfd item{STDOUT_FILENO, POLLOUT, 0};
      if (::poll(&item, 1, static_cast<int>(stdout_poll / 1ms)) <= 0) {
        if (!timeout || monotonic_now() < until) continue;
        discards_ = true;
        dropped_ += waiting_.size();
        waiting_.clear();
        break;
      }
      // A writable pipe accepts this amount without blocking.
      const auto size = std::min<std::size_t>(waiting_.size(), PIPE_BUF);
      const ssize_t count = ::write(STDOUT_FILENO, waiting_.data(), size);
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count <= 0) return Written::closed;
      waiting_.erase(0, static_cast<std::size_t>(count));
      if (timeout) until = monotonic_now() + *timeout;
    }
    return Written::all;
  }
  // Flushes before another message is printed.
  void end() {
    if (!discards_) waiting_ += guard_.end();
    (void)write(last_output_timeout);
    if (const auto dropped = std::exchange(dropped_, 0); dropped > 0) {
      std::fprintf(stderr, "mobula: dropped %llu bytes of output because stdout was not read\n",
                   static_cast<unsigned long long>(dropped));
    }
  }
  // Reports that stdout was not read for too long: further output is dropped.
  bool discards() const { return discards_; }

 private:
  std::string waiting_;
  bool discards_ = false;
  std::uint64_t dropped_ = 0;
  const bool guarded_;
  TerminalGuard guard_;
};

class JobClient {
 public:
  explicit JobClient(const CommandLine& line) : line_(line) {}

  Result<Json> request(const std::string& verb, const std::string& kind,
                       const std::string& argument) {
    if (!client_) {
      const auto cluster = find_cluster(line_);
      if (!cluster) return cluster.error();
      addressed_ = true;
      auto opened = ToolClient::open(*cluster);
      if (!opened) return opened.error();
      client_.emplace(std::move(*opened));
    }
    const auto text = client_->request(verb, kind, argument);
    request_sent_ = request_sent_ || client_->has_sent();
    if (!text) return text.error();
    Json json = Json::parse(*text, nullptr, false);
    if (!json.is_object())
      return failure(ErrorCode::corrupt, "read the reply of the head: not a JSON object");
    return json;
  }

  // Repeats the query while the head may return.
  Result<Json> request_patiently(const std::string& verb, const std::string& kind,
                                 const std::string& argument) {
    const Time until = monotonic_now() + head_timeout;
    for (bool report = false;;) {
      auto answer = request(verb, kind, argument);
      if (answer) return answer;
      const ErrorCode code = answer.error().code;
      const bool passes = code == ErrorCode::unavailable || code == ErrorCode::timed_out;
      if (!passes || !addressed_ || monotonic_now() >= until || interruptions != 0) return answer;
      if (!std::exchange(report, true)) {
        warn(fmt::format("{}; retrying for {} s", answer.error().text, head_timeout / 1s));
      }
      client_.reset();
      pause(longest_interval);
    }
  }

  Result<ReadLogReply> read(const std::string& job, std::int64_t from) {
    auto answer = request_patiently("job_log", fmt::format("{}", from), job);
    if (!answer) return answer.error();
    ReadLogReply reply;
    reply.job = answer->value("job", Json::object());
    reply.from = answer->value("from", std::uint64_t{0});
    reply.end = answer->value("end", std::uint64_t{0});
    reply.fault = answer->value("fault", std::string());
    reply.bytes = client_->bytes();
    return reply;
  }

  // Reports whether a head may have received a request that it did not answer.
  bool request_sent() const { return request_sent_; }

  static void pause(Duration span) { ::poll(nullptr, 0, static_cast<int>(span / 1ms)); }

 private:
  const CommandLine& line_;
  std::optional<ToolClient> client_;
  bool addressed_ = false;  // a known cluster is worth waiting for
  bool request_sent_ = false;
};

enum class OnInterrupt { leaves_it, stops_it };

class Follower {
 public:
  // Begins at byte `at` of the output.
  Follower(JobClient& client, JobOutput& output, std::string job, OnInterrupt policy,
           std::uint64_t at = 0)
      : client_(client), output_(output), job_(std::move(job)), policy_(policy), at_(at) {}

  // Follows until the job has ended and all of its output is printed. Returns the exit code.
  int follow() {
    const int code = follow_to_the_end();
    output_.end();
    if (lost_bytes_ > 0) {
      std::fprintf(stderr, "mobula: skipped %llu bytes of output that are no longer stored\n",
                   static_cast<unsigned long long>(lost_bytes_));
    }
    return code;
  }

 private:
  int follow_to_the_end() {
    leave_behind(job_);
    take_interruptions();
    Duration pause = shortest_interval;
    for (;;) {
      if (interruptions != 0 && !interrupted()) return exit_interrupted;
      auto reply = client_.read(job_, static_cast<std::int64_t>(at_));
      if (!reply) {
        if (interruptions != 0 && !stopping_) continue;
        return complain(reply.error());
      }
      say_why_it_waits(reply->job);
      if (reply->from > at_) lost_bytes_ += reply->from - at_;
      at_ = std::max(at_, reply->from + reply->bytes.size());
      output_.add(reply->bytes);
      const auto written =
          output_.write(stopping_ ? std::optional(last_output_timeout) : std::nullopt);
      if (written == JobOutput::Written::closed) return stdout_closed();
      if (written == JobOutput::Written::interrupted) continue;
      if (output_.discards()) at_ = std::max(at_, reply->end);
      if (!reply->fault.empty() && has_ended(reply->job)) {
        std::fprintf(stderr, "mobula: %s\n", reply->fault.c_str());
        return ended(reply->job);
      }
      if (at_ < reply->end) continue;
      if (has_ended(reply->job)) return ended(reply->job);
      pause = reply->bytes.empty() ? std::min(pause * 3 / 2, longest_interval) : shortest_interval;
      JobClient::pause(pause);
    }
  }

  // Handles a stdout without a reader.
  int stdout_closed() {
    const bool stops =
        policy_ == OnInterrupt::stops_it && client_.request("job_stop", "", job_).ok();
    std::fprintf(stderr, "mobula: stdout is closed; job %s %s\n", job_.c_str(),
                 stops ? "is being stopped" : "continues");
    return exit_failed;
  }

  // Returns false for an immediate exit.
  bool interrupted() {
    if (policy_ == OnInterrupt::leaves_it) {
      std::fprintf(stderr, "mobula: job %s continues; %s\n", job_.c_str(),
                   follow_or_end(job_).c_str());
      return false;
    }
    if (std::exchange(stopping_, true)) return true;
    // A second interruption ends this program.
    const auto stopped = client_.request("job_stop", "", job_);
    if (stopped) return true;
    complain(stopped.error());
    std::fprintf(stderr, "mobula: job %s may continue; %s\n", job_.c_str(),
                 follow_or_end(job_).c_str());
    return false;
  }

  void say_why_it_waits(const Json& job) {
    const std::string reason = job.value("reason", std::string());
    if (has_ended(job) || reason.empty() || reason == said_) return;
    said_ = reason;
    warn(fmt::format("job {} waits: {}", job_, reason));
  }

  int ended(const Json& job) const {
    const std::string state = job.value("state", std::string());
    const std::string reason = job.value("reason", std::string());
    if (state != "SUCCEEDED")
      std::fprintf(stderr, "mobula: job %s %s: %s\n", job_.c_str(), state.c_str(), reason.c_str());
    return stopping_ ? static_cast<int>(exit_interrupted) : exit_code_of_job(job);
  }

  JobClient& client_;
  JobOutput& output_;
  const std::string job_;
  const OnInterrupt policy_;
  std::uint64_t at_;
  std::uint64_t lost_bytes_ = 0;
  bool stopping_ = false;
  std::string said_;
};

// Reports the id to the console that started this command, as its `$_`.
void notify_console(const std::string& id) {
  const char* given = std::getenv(console_id_variable);
  if (given == nullptr) return;
  const Fd report(std::atoi(given));
  ::unsetenv(console_id_variable);
  (void)!::write(report.get(), id.data(), id.size());
}

Result<std::string> submit(JobClient& client, const CommandLine& line) {
  const std::string id = JobId::random().hex();
  leave_behind(id);
  // Before files are sent.
  if (auto good = submission_text(line.job, id, ""); !good) return good.error();
  const auto files = upload_job_files(
      line.job, [&](const std::string& verb, const std::string& kind, const std::string& argument) {
        if (interruptions != 0)
          return Result<Json>(
              failure(ErrorCode::cancelled,
                      "submit: interrupted while files were sent; nothing was submitted"));
        return client.request_patiently(verb, kind, argument);
      });
  if (!files) return files.error();
  const auto text = submission_text(line.job, id, *files);
  if (!text) return text.error();
  // The same id is the same job, however often the request is sent.
  const auto answer = client.request_patiently("submit", "", *text);
  if (answer) {
    notify_console(id);
    return id;
  }
  Failure why = answer.error();
  const bool unsure = client.request_sent() &&
                      (why.code == ErrorCode::unavailable || why.code == ErrorCode::timed_out);
  if (interruptions != 0)
    why = failure(
        ErrorCode::cancelled,
        unsure ? "interrupted" : "submit: interrupted before the request; nothing was submitted");
  if (unsure) why.text += "; if the head received it, its id is " + id;
  return why;
}

// Returns the complete id of a job, so that later requests refer to it even if another job takes
// its name.
Result<std::string> whole_id(JobClient& client, const std::string& subject) {
  const auto job = client.request_patiently("get", "submission", subject);
  if (!job) return job.error();
  return job->value("job_id", subject);
}

int follow(JobClient& client, const CommandLine& line) {
  const auto id = whole_id(client, line.subject);
  if (!id) return complain(id.error());
  JobOutput output(line);
  return Follower(client, output, *id, OnInterrupt::leaves_it).follow();
}

int show_job(JobClient& client, const CommandLine& line) {
  const auto job = client.request("get", "submission", line.subject);
  if (!job) return complain(job.error());
  if (line.output != OutputFormat::table) return print(*job, line, "submissions");
  return std::fputs(to_yaml(*job).c_str(), stdout) >= 0 ? exit_done : exit_failed;
}

int stop_job(JobClient& client, const CommandLine& line) {
  const auto id = whole_id(client, line.subject);
  if (!id) return complain(id.error());
  const auto stopped = client.request("job_stop", "", *id);
  if (!stopped) return complain(stopped.error());
  if (*id != line.subject) std::fprintf(stderr, "mobula: job %s is being stopped\n", id->c_str());
  for (const auto& warning : stopped->value("warnings", Json::array())) {
    warn(warning.get<std::string>());
  }
  return exit_done;
}

// Returns the beginning of the last `lines` lines.
std::size_t begin_of_tail(const Output& bytes, std::int64_t lines) {
  std::size_t at = bytes.size();
  for (std::int64_t seen = 0; at > 0; --at) {
    const bool last = at == bytes.size();
    if (bytes[at - 1] == std::byte{'\n'} && !last && ++seen >= lines) break;
  }
  return lines <= 0 ? bytes.size() : at;
}

int print_log(JobClient& client, const CommandLine& line) {
  const auto id = whole_id(client, line.subject);
  if (!id) return complain(id.error());
  JobOutput output(line);
  if (line.follow && line.tail < 0)
    return Follower(client, output, *id, OnInterrupt::leaves_it).follow();
  Output last_bytes;                 // with --tail
  std::optional<std::uint64_t> end;  // size at the first read: a job may print forever
  std::int64_t from = line.tail >= 0 ? -tail_bytes : 0;
  for (;;) {
    auto reply = client.read(*id, from);
    if (!reply) return complain(reply.error());
    if (!reply->fault.empty() && line.follow && !has_ended(reply->job))
      break;  // its node may return
    if (!reply->fault.empty())
      return complain(failure(ErrorCode::unavailable, reply->fault), exit_failed);
    const auto next = reply->from + reply->bytes.size();
    if (line.tail < 0) {
      output.add(reply->bytes);
      if (output.write(std::nullopt) != JobOutput::Written::all) return exit_done;
    } else {
      last_bytes.insert(last_bytes.end(), reply->bytes.begin(), reply->bytes.end());
    }
    from = static_cast<std::int64_t>(next);
    if (!end) end = reply->end;
    if (reply->bytes.empty() || next >= *end) break;
  }
  if (line.tail < 0) return exit_done;
  last_bytes.erase(
      last_bytes.begin(),
      last_bytes.begin() + static_cast<std::ptrdiff_t>(begin_of_tail(last_bytes, line.tail)));
  output.add(last_bytes);
  if (output.write(std::nullopt) != JobOutput::Written::all) return exit_failed;
  if (!line.follow) return exit_done;
  return Follower(client, output, *id, OnInterrupt::leaves_it, static_cast<std::uint64_t>(from))
      .follow();
}

}  // namespace

int submit_job(const CommandLine& line) {
  JobClient client(line);
  const auto id = submit(client, line);
  if (!id) return complain(id.error());
  if (line.job.no_wait) {
    std::printf("%s\n", id->c_str());
    return std::fflush(stdout) == 0 ? exit_done
                                    : complain_of_output(fmt::format("job {} was submitted", *id));
  }
  JobOutput output(line);
  return Follower(client, output, *id, OnInterrupt::leaves_it).follow();
}

int run_job(const CommandLine& line) {
  JobClient client(line);
  take_interruptions();  // an interruption before the job exists ends it as soon as it exists
  const auto id = submit(client, line);
  if (!id && id.error().code == ErrorCode::cancelled) return complain(id.error(), exit_interrupted);
  if (!id) return complain(id.error());
  JobOutput output(line);
  return Follower(client, output, *id, OnInterrupt::stops_it).follow();
}

int wait_for_job(const CommandLine& line) {
  JobClient client(line);
  return follow(client, line);
}

int job_command(const CommandLine& line) {
  if (line.job.action == "list") {
    CommandLine list = line;
    list.kind = "submissions";
    return list_items(list);
  }
  JobClient client(line);
  if (line.job.action == "status") return show_job(client, line);
  if (line.job.action == "stop") return stop_job(client, line);
  return print_log(client, line);
}

}  // namespace mobula::internal::cli
