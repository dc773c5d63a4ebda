// The run on a GPU. Without GPU or driver each stage says so and counts as not measured.
//   mobula-gpu-check --out FILE [--short] [--only STAGE]   runs the stages, each with its time limit
//   mobula-gpu-check --render FILE                         the page for people; without a file's records: no run yet
//   mobula-gpu-check --compare FILE FILE                   where two runs' probes have answered differently
//   mobula-gpu-check --list
// Exits 0; 1 where something does not hold, or answers differ; 2 for wrong use.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "gpu/check/peers.h"
#include "gpu/check/records.h"

namespace mobula::internal::gpu_check {
namespace {

std::string now_text() {
  char text[64];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
  return text;
}

class Out {
 public:
  explicit Out(const std::string& path) : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {}
  bool ok() const { return static_cast<bool>(file_); }
  void line(const std::string& text) const {
    const std::string whole = text + "\n";
    (void)!::write(file_.get(), whole.data(), whole.size());
  }

 private:
  Fd file_;
};

struct End {
  std::string status;
  std::string reason;
  double seconds = 0;
};

// In a process group of its own, which is ended whole.
End run_stage(const Stage& stage, bool brief, const Out& out) {
  const auto begin = monotonic_now();
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return {"failed", "no pipe", 0};
  const Fd from(ends[0]);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    ::dup2(ends[1], STDOUT_FILENO);
    Findings findings(std::string(stage.name), brief);
    stage.run(findings);
    std::fflush(nullptr);
    ::_exit(findings.exit_code());
  }
  ::setpgid(child, child);
  ::close(ends[1]);
  std::string gathered, reason;
  bool over_time = false;
  for (bool open = true; open;) {
    const auto left = Duration(std::chrono::seconds(stage.limit_s)) - (monotonic_now() - begin);
    pollfd readable{from.get(), POLLIN, 0};
    const int wait_ms = static_cast<int>(std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(left).count()));
    const int found = ::poll(&readable, 1, wait_ms);
    if (found < 0 && errno == EINTR) continue;
    if (found == 0) {
      over_time = true;
      break;
    }
    char text[4096];
    const ssize_t count = ::read(from.get(), text, sizeof text);
    if (count <= 0) break;
    gathered.append(text, static_cast<std::size_t>(count));
    for (std::size_t end = 0; (end = gathered.find('\n')) != std::string::npos; gathered.erase(0, end + 1)) {
      const std::string line = gathered.substr(0, end);
      out.line(line);
      const auto json = Json::parse(line, nullptr, false);
      if (json.is_object() && json.contains("cannot")) reason = json["cannot"];
      if (json.is_object() && json.contains("holds") && json["holds"] == false) reason = json["what"];
    }
  }
  ::kill(-child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  End end{"failed", reason, std::chrono::duration<double>(monotonic_now() - begin).count()};
  if (over_time) return {"timed out", fmt::format("it was ended after {} s", stage.limit_s), end.seconds};
  if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) end.reason = fmt::format("it was ended by signal {}", WTERMSIG(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) end.status = "passed";
  if (WIFEXITED(status) && WEXITSTATUS(status) == Findings::skipped_) end.status = "skipped";
  return end;
}

// The name that a device gives itself, seen by a process of its own.
bool is_simulated() {
  Peer peer;
  const Message opened = peer.ask({{"do", "open"}});
  return opened.json.value("name", std::string()).find("SIMULATED") != std::string::npos;
}

int run_all(const std::string& path, bool brief, const std::string& only) {
  const Out out(path);
  if (!out.ok()) {
    fmt::print(stderr, "cannot write {}: {}\n", path, std::strerror(errno));
    return 2;
  }
  out.line(Json{{"run", {{"date", now_text()}, {"brief", brief}, {"simulated", is_simulated()}}}}.dump());
  int failures = 0, known = 0;
  for (const Stage& stage : stages()) {
    if (!only.empty() && only != stage.name) continue;
    ++known;
    End end{"not built", "needs " + std::string(stage.missing), 0};
    if (stage.run != nullptr) end = run_stage(stage, brief, out);
    failures += end.status == "failed" || end.status == "timed out" ? 1 : 0;
    out.line(Json{{"stage", stage.name}, {"status", end.status}, {"reason", end.reason}, {"seconds", end.seconds}}.dump());
    fmt::print("{:<20} {:<10} {:6.1f} s  {}\n", stage.name, end.status, end.seconds, end.reason);
    std::fflush(stdout);
  }
  if (known == 0) {
    fmt::print(stderr, "no stage '{}'\n", only);
    return 2;
  }
  return failures == 0 ? 0 : 1;
}

int compare(const std::string& first, const std::string& second) {
  const auto a = read_records(first), b = read_records(second);
  if (!a || !b) {
    fmt::print(stderr, "{}\n", (a ? b : a).error().text);
    return 2;
  }
  const auto lines = differences(*a, *b);
  for (const auto& line : lines) fmt::print("{}\n", line);
  return lines.empty() ? 0 : 1;
}

int main_of_check(const std::vector<std::string>& words) {
  const auto has = [&](const char* word) { return std::ranges::find(words, word) != words.end(); };
  const auto after = [&](const char* word, std::size_t by = 1) -> std::string {
    const auto at = std::ranges::find(words, word);
    const auto rest = static_cast<std::size_t>(words.end() - at);
    return rest > by ? *(at + static_cast<std::ptrdiff_t>(by)) : std::string();
  };
  ::signal(SIGPIPE, SIG_IGN);
  if (has("--peer")) return be_peer();
  if (has("--list")) {
    for (const Stage& each : stages()) fmt::print("{:<20} {:>4} s  {}\n", each.name, each.limit_s, each.shows);
    return 0;
  }
  if (has("--render")) {
    const auto records = read_records(after("--render"));
    fmt::print("{}", page_of(records ? *records : std::vector<Json>()));
    return 0;
  }
  if (has("--compare") && !after("--compare", 2).empty()) return compare(after("--compare"), after("--compare", 2));
  if (has("--out") && !after("--out").empty()) return run_all(after("--out"), has("--short"), after("--only"));
  fmt::print(stderr, "usage: mobula-gpu-check --out FILE [--short] [--only STAGE] | --render FILE | --compare FILE FILE | --list\n");
  return 2;
}

}  // namespace
}  // namespace mobula::internal::gpu_check

int main(int count, char** words) { return mobula::internal::gpu_check::main_of_check({words + 1, words + count}); }
