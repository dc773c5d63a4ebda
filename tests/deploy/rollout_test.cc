// Effects of `up` on machines, over a script in place of ssh. Each host is a home directory, and
// the program leaves the files of a head or an agent.
#include "deploy/rollout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "deploy/remote.h"

namespace mobula::internal::deploy {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class RolloutTest : public ::testing::Test {
 protected:
  RolloutTest() {
    char name[] = "/tmp/mobula-rollout-XXXXXX";
    directory_ = ::mkdtemp(name);
    path_ = std::getenv("PATH");
    ::setenv("PATH", (directory_ + "/bin:" + path_).c_str(), 1);
    ::unsetenv("MOBULA_STATE_DIR");
    ::unsetenv("XDG_STATE_HOME");
    script(
        "bin/ssh",
        R"sh(
for word; do host=$script script=$word; done
[ ! -e )sh" +
            directory_ +
            R"sh(/$host.away ] || { echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255; }
HOME=)sh" + directory_ +
            R"sh(/hosts/$host; export HOME; mkdir -p "$HOME"
exec sh -c "$script")sh");
    fs::create_directories(directory_ + "/parts");
    for (const char* part : {"mobula", "mobula-head", "mobula-agent"})
      fs::copy(sleep_program(), directory_ + "/parts/" + part);
    program_ = directory_ + "/program/mobula";
    write_program("");
  }
  ~RolloutTest() override {
    for (const auto& each : fs::recursive_directory_iterator(directory_ + "/hosts")) {
      if (each.path().filename() == "pids") end_all(each.path());
    }
    ::setenv("PATH", path_.c_str(), 1);
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }

  static std::string sleep_program() { return fs::canonical("/bin/sleep").string(); }

  void script(const std::string& name, const std::string& text) const {
    const auto path = fs::path(directory_) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    fs::permissions(path, fs::perms::owner_all);
  }

  // `first` is the first command of its start.
  void write_program(const std::string& first) const {
    script(
        "program/mobula",
        R"sh(
command=$1; shift
[ "$command" != version ] || exit 0
while [ $# -gt 0 ]; do
  case $1 in --check-only) exit 0 ;; --head) head=true ;; --name) name=$2 ;; --state-dir) state=$2 ;; --address) at=$2 ;; --port=*) port=${1#--port=} ;; esac
  shift
done
place=$state/$name
mkdir -p "$place/running" "$place/head" "$place/agent"
)sh" + first +
            R"sh(
ticks() { sed 's/^.*) //' /proc/$1/stat | cut -d ' ' -f 20; }
part() { )sh" +
            directory_ +
            R"sh(/parts/$1 1000 </dev/null >/dev/null 2>&1 & pid=$!; echo $pid >>"$place/pids"; until [ "$(cat /proc/$pid/comm)" = $1 ]; do :; done; }
part mobula
printf '{"pid": %s, "start_time": %s, "boot_id": "%s", "head": %s}\n' $pid $(ticks $pid) $(cat /proc/sys/kernel/random/boot_id) ${head:-false} >"$place/running/$pid.json"
part mobula-agent
[ -z "${head:-}" ] || at=10.0.0.1:$port
printf '{\n"head_address": "%s",\n"pid": %s,\n"start_time": %s\n}\n' $at $pid $(ticks $pid) >"$place/agent/agent.json"
[ -n "${head:-}" ] || { echo '{"node_id": "0123"}'; exit 0; }
part mobula-head
printf '{\n"address": "%s",\n"pid": %s,\n"start_time": %s\n}\n' $at $pid $(ticks $pid) >"$place/head/head.json"
echo key >"$place/$name.key"
printf '{"address": "%s"}\n' $at)sh");
  }

  static void end_all(const fs::path& pids) {
    std::ifstream file(pids);
    for (pid_t pid = 0; file >> pid;) ::kill(pid, SIGKILL);
  }

  // A head "h" and workers.
  Inventory inventory(const std::vector<std::string>& workers,
                      const std::string& more = "state_dir: state\n") const {
    const std::string path = directory_ + "/cluster.yaml";
    std::ofstream file(path);
    file << "cluster_name: blue\n"
         << more << "head: {host: h, port: 4711}\n"
         << (workers.empty() ? "" : "workers:\n");
    for (const auto& each : workers) file << "  - " << each << "\n";
    file.close();
    auto read = read_inventory(path);
    EXPECT_TRUE(read) << read.error().text;
    return std::move(read).value();
  }

  std::map<std::string, HostReport> up(const Inventory& inventory,
                                       RolloutOptions options = {}) const {
    const auto bundle = Bundle::of_program(program_);
    EXPECT_TRUE(bundle) << bundle.error().text;
    std::map<std::string, HostReport> by_host;
    for (auto& each : Rollout(inventory, std::move(options)).bring_up(*bundle))
      by_host[each.host] = each;
    return by_host;
  }

  std::string directory_;
  std::string path_;
  std::string program_;
};

TEST_F(RolloutTest, HeadKnownUnreachable_IsNotTriedAgain) {
  const auto hosts = inventory({"a"});
  RolloutOptions options;
  options.head_away = failure(ErrorCode::unavailable, "no way to h");
  const auto reports = up(hosts, options);
  EXPECT_EQ(reports.at("h").result, "unreachable");
  EXPECT_EQ(reports.at("h").detail, "no way to h");
  EXPECT_NE(reports.at("a").result, "started") << "it has no head to join";
  EXPECT_FALSE(fs::exists(directory_ + "/hosts/h")) << "no script ran on the host";
  for (const auto& each : Rollout(hosts, options).take_down()) {
    if (each.head) EXPECT_EQ(each.result, "unreachable");
  }
  EXPECT_FALSE(fs::exists(directory_ + "/hosts/h"));
}

TEST_F(RolloutTest, RunningHosts_StayUnchanged) {
  const auto hosts = inventory({"a", "b"});
  std::mutex mutex;
  std::map<std::string, std::vector<std::string>> steps;
  RolloutOptions options;
  options.on_step = [&](const std::string& host, const std::string& step, bool) {
    const std::scoped_lock lock(mutex);
    steps[host].push_back(step);
  };
  auto first = up(hosts, options);
  EXPECT_EQ(first["h"].result, "started") << first["h"].detail;
  EXPECT_EQ(first["a"].result, "started") << first["a"].detail;
  EXPECT_EQ(first["b"].detail, "node 0123");
  ASSERT_EQ(steps["b"].size(), 4u);
  EXPECT_EQ(steps["b"].front(), "is looked at");
  EXPECT_THAT(steps["b"][1], HasSubstr("gets the program"));
  EXPECT_EQ(steps["b"][2], "starts");
  EXPECT_EQ(steps["b"].back(), "started");
  auto second = up(hosts);
  for (const char* host : {"h", "a", "b"})
    EXPECT_EQ(second[host].result, "unchanged") << second[host].detail;
}

TEST_F(RolloutTest, HeadUnreachable_WorkerIsSkipped) {
  const auto hosts = inventory({"a"});
  ASSERT_EQ(up(hosts)["a"].result, "started");
  std::ofstream(directory_ + "/h.away");
  auto seen = up(hosts);
  EXPECT_EQ(seen["h"].result, "unreachable");
  EXPECT_EQ(seen["a"].result, "skipped");
  EXPECT_THAT(
      seen["a"].detail,
      HasSubstr(
          "has joined 10.0.0.1:4711; whether that is this cluster's head, h could not be asked"));
  fs::remove(directory_ + "/h.away");
  EXPECT_EQ(up(hosts)["a"].result, "unchanged");
}

TEST_F(RolloutTest, RejectsSharedStateDirectory) {
  const std::string shared = directory_ + "/hosts/shared";
  fs::create_directories(shared);
  auto seen = up(inventory({"a", "b"}, "state_dir: " + shared + "\n"));
  for (const char* host : {"h", "a", "b"}) {
    EXPECT_EQ(seen[host].result, "failed");
    EXPECT_THAT(seen[host].detail, HasSubstr("is also that of"));
    EXPECT_THAT(seen[host].detail, HasSubstr("state_dir must be local to each host"));
  }
  EXPECT_FALSE(fs::exists(shared + "/blue/running")) << "nothing was started";
  // Marks of a finished run do not affect this one.
  EXPECT_EQ(up(inventory({}, "state_dir: " + shared + "\n"))["h"].result, "started");
}

TEST_F(RolloutTest, AllowsOneChangeAtATime) {
  const auto hosts = inventory({});
  const Remote head(hosts, hosts.hosts.front());
  auto first = head.hold("ada@desk since noon", 10s);
  ASSERT_TRUE(first) << first.error().text;
  const auto second = head.hold("bob@den since one", 10s);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::already_exists);
  EXPECT_THAT(second.error().text, HasSubstr("by ada@desk since noon; see " + directory_ +
                                             "/hosts/h/state/blue/.changed-by"));
  first->close_input();
  EXPECT_EQ(first->wait(10s), 0);
  // A lock holder that dies loses the lock as soon as its death is noticed.
  ASSERT_TRUE(head.hold("bob@den since one", 10s));
  const Time until = monotonic_now() + 10s;
  bool held = false;
  while (!held && monotonic_now() < until) held = head.hold("eve@desk since two", 10s).ok();
  EXPECT_TRUE(held);
  std::ofstream(directory_ + "/h.away");
  const auto unreached = head.hold("ada@desk since three", 10s);
  ASSERT_FALSE(unreached);
  EXPECT_EQ(unreached.error().code, ErrorCode::unavailable);
}

TEST_F(RolloutTest, StartTooSlow_IsAbandonedAndKilled) {
  write_program("echo $$ >" + directory_ + "/starter; exec " + directory_ + "/parts/mobula 1000");
  RolloutOptions options;
  options.start_timeout_ = 1s;
  auto seen = up(inventory({}), options);
  EXPECT_EQ(seen["h"].result, "failed");
  EXPECT_THAT(seen["h"].detail, HasSubstr("was not ready within 1 s, and was given up"));
  pid_t starter = 0;
  std::ifstream(directory_ + "/starter") >> starter;
  ASSERT_GT(starter, 0);
  EXPECT_TRUE(::kill(starter, 0) != 0 && errno == ESRCH) << "the process started there has ended";
}

}  // namespace
}  // namespace mobula::internal::deploy
