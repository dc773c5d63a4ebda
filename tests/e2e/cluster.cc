#include "e2e/cluster.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

namespace mobula::e2e {

namespace fs = std::filesystem;

namespace {

// Limits on the replayed bytes: of all recordings of one test, smallest first, and of one
// recording.
constexpr std::uintmax_t replayed_bytes = 192u << 20;
constexpr std::uintmax_t recorded_bytes = 16u << 20;

Json json_file(const std::string& path) { return Json::parse(read_text(path), nullptr, false); }

// Returns the state letter of a process, or 0 if it does not exist.
char state_of_process(pid_t pid) {
  const std::string stat = read_text("/proc/" + std::to_string(pid) + "/stat");
  const auto end = stat.rfind(')');
  return end == std::string::npos || end + 2 >= stat.size() ? '\0' : stat[end + 2];
}

}  // namespace

bool runs(pid_t pid) {
  const char state = state_of_process(pid);
  return state != '\0' && state != 'Z' && state != 'X';
}

std::size_t resident_bytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  std::size_t size = 0;
  std::size_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t descriptors(pid_t pid) {
  std::error_code code;
  std::size_t count = 0;
  for (fs::directory_iterator at("/proc/" + std::to_string(pid) + "/fd", code), end;
       !code && at != end; at.increment(code)) {
    ++count;
  }
  return count;
}

ClusterTest::ClusterTest() {
  std::string pattern = "/tmp/mobula-e2e-XXXXXX";
  directory_ = ::mkdtemp(pattern.data());
  fs::create_directory(directory_ + "/log");
  fs::create_directory(directory_ + "/run");
}

void ClusterTest::TearDown() {
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    if (*node != "a") stop(*node);
  }
  if (!nodes_.empty()) stop("a");
  expect_nothing_left();
  if (!HasFailure()) expect_same_in_replay();
}

ClusterTest::~ClusterTest() {
  for (const pid_t pid : processes()) ::kill(pid, SIGKILL);
  if (HasFailure()) {
    std::cout << "logs and state of this test: " << directory_ << "\n";
  } else {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
}

std::string ClusterTest::next_log(const std::string& of) {
  return directory_ + "/log/" + std::to_string(++logs_) + "-" + of;
}

std::map<std::string, std::string> ClusterTest::environment_of(const std::string& name) const {
  std::map<std::string, std::string> environment = more_environment;
  environment["MOBULA_STATE_DIR"] = state_of(name);
  environment["XDG_RUNTIME_DIR"] = directory_ + "/run";
  environment.try_emplace("MOBULA_RECORD", directory_ + "/record");
  environment["MOBULA_RECORD_LIMIT"] = std::to_string(recorded_bytes);
  return environment;
}

void ClusterTest::start_head(Words flags) {
  const bool again = !nodes_.empty();
  flags.insert(flags.begin(), {"start", "--head"});
  const Ended ended = mobula(flags);
  ASSERT_EQ(ended.code, 0) << ended.err;
  address_ = json_file(state_of("a") + "/default/head/head.json").value("address", "");
  ASSERT_FALSE(address_.empty()) << ended.out;
  if (!again) nodes_.push_back("a");
}

void ClusterTest::start_node(const std::string& name, Words flags, const std::string& by) {
  flags.insert(flags.begin(), {"start", "--address", by.empty() ? address_ : by, "--key",
                               state_of("a") + "/default/default.key"});
  const Ended ended = mobula(flags, name);
  ASSERT_EQ(ended.code, 0) << ended.err;
  if (std::find(nodes_.begin(), nodes_.end(), name) == nodes_.end()) nodes_.push_back(name);
}

void ClusterTest::stop(const std::string& name) {
  const Ended ended = mobula({"stop", "--grace", "2"}, name);
  EXPECT_EQ(ended.code, 0) << name << ": " << ended.err;
}

Ended ClusterTest::mobula(const Words& arguments, const std::string& node) {
  Words command{programs + "/mobula"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Process(command, environment_of(node), next_log("mobula-" + arguments.front())).wait();
}

std::optional<Json> ClusterTest::list(const std::string& kind) {
  const Ended ended = mobula({"list", kind, "-o", "json"});
  const Json json = Json::parse(ended.out, nullptr, false);
  if (ended.code != 0 || !json.is_object() || !json.contains("items")) return std::nullopt;
  return json["items"];
}

std::size_t ClusterTest::alive_nodes() {
  std::size_t alive = 0;
  for (const Json& node : list("nodes").value_or(Json::array())) {
    std::string state = node.value("state", "");
    for (auto& c : state) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    alive += state == "alive" ? 1 : 0;
  }
  return alive;
}

bool ClusterTest::nothing_is_held() {
  const auto leases = list("leases");
  const auto executors = list("executors");
  return leases && executors && leases->empty() && executors->empty();
}

Process ClusterTest::start_driver(const Words& arguments) {
  auto environment = environment_of("a");
  if (!address_.empty()) environment["MOBULA_ADDRESS"] = address_;
  Words command{programs + "/e2e_driver"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Process(command, environment, next_log("driver-" + arguments.front()));
}

Ended ClusterTest::run_program(const std::string& program, const Words& arguments) {
  auto environment = environment_of("a");
  if (!address_.empty()) environment["MOBULA_ADDRESS"] = address_;
  Words command{program.front() == '/' ? program : programs + "/" + program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Process(command, environment, next_log("program")).wait();
}

Ended ClusterTest::drive(const Words& arguments, Milliseconds within) {
  Process driver = start_driver(arguments);
  Ended ended = driver.wait(within);
  EXPECT_EQ(ended.code, 0) << arguments.front() << " printed:\n" << ended.out << ended.err;
  return ended;
}

pid_t ClusterTest::head_pid() const {
  return static_cast<pid_t>(
      json_file(state_of("a") + "/default/head/head.json").value("pid", std::int64_t{0}));
}

pid_t ClusterTest::agent_pid(const std::string& name) const {
  return static_cast<pid_t>(
      json_file(state_of(name) + "/default/agent/agent.json").value("pid", std::int64_t{0}));
}

std::string ClusterTest::node_id(const std::string& name) const {
  return json_file(state_of(name) + "/default/agent/agent.json").value("node_id", "");
}

std::set<pid_t> ClusterTest::processes() const {
  std::set<pid_t> found;
  std::error_code code;
  for (fs::directory_iterator at("/proc", code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (!std::isdigit(static_cast<unsigned char>(name[0]))) continue;
    const pid_t pid = static_cast<pid_t>(std::stol(name));
    if (pid == ::getpid() || !runs(pid)) continue;
    if (read_text(at->path().string() + "/environ").find(directory_) != std::string::npos) {
      found.insert(pid);
    }
  }
  return found;
}

void ClusterTest::expect_nothing_left() {
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return processes().empty(); }));
  for (const pid_t pid : processes()) {
    std::string command = read_text("/proc/" + std::to_string(pid) + "/cmdline");
    std::replace(command.begin(), command.end(), '\0', ' ');
    ADD_FAILURE() << "still runs: " << pid << " " << command;
  }
  std::error_code code;
  for (fs::recursive_directory_iterator at(directory_, code), end; !code && at != end;
       at.increment(code)) {
    EXPECT_FALSE(at->is_socket(code)) << "a socket is left: " << at->path();
  }
  // Memory files and abstract sockets end with the last process that has them open.
  EXPECT_EQ(read_text("/proc/net/unix").find(directory_), std::string::npos);
}

void ClusterTest::expect_same_in_replay() {
  std::vector<std::pair<std::uintmax_t, std::string>> files;
  std::error_code code;
  for (fs::directory_iterator at(directory_ + "/record", code), end; !code && at != end;
       at.increment(code)) {
    // A process killed while it began its recording leaves another suffix.
    if (at->path().extension() == ".mobrec")
      files.emplace_back(at->file_size(), at->path().string());
  }
  std::sort(files.begin(), files.end());
  Words command{programs + "/mobula-sim", "--replay"};
  std::uintmax_t bytes = 0;
  std::size_t skipped = 0;
  for (const auto& [size, path] : files) {
    if (bytes + size > replayed_bytes) {
      ++skipped;
      continue;
    }
    bytes += size;
    command.push_back(path);
  }
  if (command.size() == 2) return;  // no process was started
  const Ended ended = Process(command, {}, next_log("replay")).wait(Milliseconds(150'000));
  EXPECT_EQ(ended.code, 0) << "recordings that do not replay:\n" << ended.out << ended.err;
  std::cout << "replayed " << command.size() - 2 << " recordings of " << (bytes >> 10) << " KiB";
  if (skipped > 0) std::cout << ", left out " << skipped << " for their size";
  std::cout << "\n";
}

}  // namespace mobula::e2e
