// The program `mobula`, run as by a user.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "cli/mobula_program.h"
#include "protocol/program/cluster_files.h"
#include "transport/bus/curve.h"
#include "transport/net/tcp.h"

namespace mobula::internal {
namespace {

bool runs(std::int64_t pid) { return ::kill(static_cast<pid_t>(pid), 0) == 0; }

TEST_F(ProgramTest, StartsShowsStatusAndStopsWithoutTrace) {
  const auto started = start_head();
  ASSERT_EQ(started.code, 0) << started.err;
  const std::string address = started.json().value("address", "");
  EXPECT_THAT(started.json().value("join", ""),
              HasSubstr("mobula start --address " + address + " --key "));

  const auto status = mobula({"status", "-o", "json"});
  ASSERT_EQ(status.code, 0) << status.err;
  EXPECT_EQ(status.json().value("apiVersion", ""), "mobula/v1");
  EXPECT_EQ(status.json().value("address", ""), address);
  EXPECT_THAT(mobula({"status"}).out, HasSubstr("cluster default is RUNNING at " + address));

  const auto nodes = mobula({"list", "nodes", "-o", "json"});
  ASSERT_EQ(nodes.code, 0) << nodes.err;
  ASSERT_EQ(nodes.json()["items"].size(), 1u);
  const Json node = nodes.json()["items"][0];
  EXPECT_EQ(node["state"], "ALIVE");
  EXPECT_EQ(node["resources"]["CPU"]["total"], 2);
  EXPECT_EQ(mobula({"list", "nodes", "--filter", "state=DEAD", "-o", "name"}).out, "");
  EXPECT_EQ(mobula({"get", "node", node["node_id"].get<std::string>().substr(0, 8)}).code, 0);
  EXPECT_EQ(mobula({"get", "node", "00000000"}).code, 7);

  const auto agent = load_agent_file(cluster_dir() + "/agent/agent.json").value();
  const auto head = load_head_file(cluster_dir() + "/head/head.json").value();
  EXPECT_TRUE(runs(agent.pid));
  EXPECT_TRUE(fs::exists(agent.socket));
  const auto stopped = mobula({"stop"});
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_FALSE(runs(agent.pid));
  EXPECT_FALSE(runs(head.pid));
  EXPECT_FALSE(fs::exists(agent.socket));
  EXPECT_TRUE(fs::is_empty(cluster_dir() + "/running"));
  const auto after = mobula({"status"});
  EXPECT_EQ(after.code, 3);
  expect_one_line(after, "restart it with: mobula start --head");
}

TEST_F(ProgramTest, StartToken_DoesNotReachJobs) {
  ::setenv("MOBULA_TOKEN", "a-secret-of-mine", 1);
  ::setenv("MOBULA_TOKEN_FILE", "/a-secret-file", 1);
  const auto started = start_head();
  ::unsetenv("MOBULA_TOKEN");
  ::unsetenv("MOBULA_TOKEN_FILE");
  ASSERT_EQ(started.code, 0) << started.err;
  const auto seen = mobula({"run", "--", "env"});
  ASSERT_EQ(seen.code, 0) << seen.err;
  EXPECT_THAT(seen.out, HasSubstr("PATH="));
  EXPECT_EQ(seen.out.find("MOBULA_TOKEN"), std::string::npos) << seen.out;
  // The environments of running processes do not contain the token either.
  const auto agent = load_agent_file(cluster_dir() + "/agent/agent.json").value();
  const auto head = load_head_file(cluster_dir() + "/head/head.json").value();
  std::vector<std::string> processes{std::to_string(agent.pid), std::to_string(head.pid)};
  for (const auto& each : fs::directory_iterator(cluster_dir() + "/running"))
    processes.push_back(each.path().stem());
  EXPECT_EQ(processes.size(), 3u);
  for (const auto& each : processes) {
    const std::string environment = text_of("/proc/" + each + "/environ");
    EXPECT_THAT(environment, HasSubstr("PATH="));
    EXPECT_EQ(environment.find("a-secret"), std::string::npos) << each;
  }
  // A job receives a token if the user passes one.
  EXPECT_THAT(mobula({"run", "--env", "MOBULA_TOKEN=given", "--", "env"}).out,
              HasSubstr("MOBULA_TOKEN=given"));
}

TEST_F(ProgramTest, CheckOnly_FindsPortInUse) {
  const Fd listener = listen_at("127.0.0.1:0").value();
  const std::string taken = std::to_string(local_address_of(listener.get()).value().port());
  const auto refused = mobula({"start", "--check-only", "--head", "--port", taken});
  EXPECT_EQ(refused.code, 1);
  expect_one_line(refused, "port " + taken + " of 127.0.0.1 is in use by");
  expect_one_line(mobula({"start", "--check-only", "--head", "--http", taken}), taken);
  EXPECT_FALSE(fs::exists(state())) << "--check-only creates no files";
  // A port of this cluster's own head counts as free for its replacement.
  const auto started = start_head();
  ASSERT_EQ(started.code, 0) << started.err;
  const std::string address = started.json()["address"];
  const std::string own = address.substr(address.rfind(':') + 1);
  EXPECT_EQ(mobula({"start", "--check-only", "--head", "--port", own}).code, 0);
  EXPECT_EQ(mobula({"start", "--check-only", "--head", "--port", own, "--name", "other"}).code, 1);
  EXPECT_EQ(mobula({"start", "--check-only", "--head", "--port", taken}).code, 1);
}

TEST_F(ProgramTest, HeadRestarted_KeepsPortAndAdvancesEpoch) {
  const auto first = start_head();
  ASSERT_EQ(first.code, 0) << first.err;
  ASSERT_EQ(mobula({"stop"}).code, 0);
  const auto second = start_head();
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(first.json()["address"], second.json()["address"]);
  EXPECT_EQ(mobula({"status", "-o", "json"}).json()["epoch"], 2);
}

TEST_F(ProgramTest, SecondMachine_JoinsWithKeyFile) {
  const auto started = start_head();
  ASSERT_EQ(started.code, 0) << started.err;
  const std::string address = started.json()["address"];
  const std::string other = directory_ + "/other";
  const auto joined = mobula({"start", "--address", address, "--key", started.json()["key_file"],
                              "--state-dir", other, "--num-cpus", "3", "-o", "json"});
  ASSERT_EQ(joined.code, 0) << joined.err;
  const auto nodes = mobula({"list", "nodes", "-o", "name"});
  EXPECT_THAT(nodes.out, HasSubstr(joined.json()["node_id"].get<std::string>()));
  // Commands work on the machine that joined.
  EXPECT_EQ(mobula({"status", "--state-dir", other}).code, 0);
  EXPECT_EQ(mobula({"stop", "--state-dir", other}).code, 0);
  EXPECT_EQ(mobula({"status"}).code, 0);
}

TEST_F(ProgramTest, ExplainInfeasible_ExitsWithSix) {
  ASSERT_EQ(start_head().code, 0);
  EXPECT_EQ(mobula({"explain", R"({"num_cpus": 1})"}).code, 0);
  const auto never = mobula({"explain", R"({"num_gpus": 99})"});
  EXPECT_EQ(never.code, 6);
  EXPECT_THAT(never.out, HasSubstr("GPU"));
  EXPECT_EQ(mobula({"explain", "{broken"}).code, 2);
}

TEST_F(ProgramTest, UnknownTask_ExitsWithSeven) {
  ASSERT_EQ(start_head().code, 0);
  const auto list = mobula({"list", "tasks", "-o", "json"});
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_EQ(list.json()["kind"], "TaskList");
  EXPECT_TRUE(list.json()["items"].empty());
  for (const std::string id : {"0123456789abcdef0123456789abcdef", "0123"}) {
    const auto got = mobula({"get", "task", id});
    EXPECT_EQ(got.code, 7);
    expect_one_line(got, id);
    EXPECT_EQ(mobula({"explain", id}).code, 7);
  }
  EXPECT_EQ(mobula({"get", "task", "zz"}).code, 2);
  EXPECT_EQ(mobula({"list", "tasks", "--filter", "state=walking"}).code, 2);
  EXPECT_EQ(mobula({"list", "tasks", "--limit", "5", "-o", "json"}).code, 0);
  EXPECT_EQ(mobula({"list", "tasks", "--limit", "-1"}).code, 2);
  const auto all = mobula({"list", "nodes", "--limit", "5"});
  EXPECT_EQ(all.code, 2);
  EXPECT_THAT(all.err, HasSubstr("--limit: only for tasks"));
  EXPECT_EQ(mobula({"list", "demands", "-o", "json"}).json()["kind"], "DemandList");
}

TEST_F(ProgramTest, WrongUse_ExitsWithTwo) {
  const auto outcome = mobula({"start", "--head", "--num-cpus", "lots"});
  EXPECT_EQ(outcome.code, 2);
  expect_one_line(outcome, "--num-cpus");
}

// A filter of bytes that are not UTF-8 travels with U+FFFD in their place.
TEST_F(ProgramTest, FilterIsNoUtf8_ReachesHead) {
  const auto events = mobula({"events", "--kind", "NODE_\xff"});
  EXPECT_EQ(events.code, 3) << events.err;
}

TEST_F(ProgramTest, NoListenerAtAddress_ExitsWithThree) {
  const auto outcome = mobula({"status", "--address", "127.0.0.1:1"});
  EXPECT_EQ(outcome.code, 3);
  expect_one_line(outcome, "127.0.0.1:1");
  EXPECT_EQ(mobula({"status"}).code, 3);
}

TEST_F(ProgramTest, KeyNotAdmitted_ExitsWithFour) {
  const auto started = start_head();
  ASSERT_EQ(started.code, 0) << started.err;
  auto key = load_key_file(started.json()["key_file"]).value();
  const auto pair = CurveKeys::generate().value();
  key.public_key = pair.public_key;
  key.secret_key = pair.secret_key;
  const std::string path = directory_ + "/wrong.key";
  ASSERT_TRUE(save(key, path).ok());
  const auto outcome = mobula({"status", "--address", started.json()["address"], "--key", path});
  EXPECT_EQ(outcome.code, 4);
  expect_one_line(outcome, path);
}

TEST_F(ProgramTest, KeyOfAnotherCluster_ExitsWithFour) {
  const auto started = start_head();
  ASSERT_EQ(started.code, 0) << started.err;
  ASSERT_EQ(mobula({"start", "--head", "--name", "other", "--no-worker"}).code, 0);
  const std::string address = started.json()["address"];
  const std::string key = state() + "/other/other.key";
  const auto status = mobula({"status", "--address", address, "--key", key});
  EXPECT_EQ(status.code, 4);
  expect_one_line(status, key);
  const auto joined =
      mobula({"start", "--address", address, "--key", key, "--state-dir", directory_ + "/third"});
  EXPECT_EQ(joined.code, 4);
  expect_one_line(joined, key);
}

TEST_F(ProgramTest, NamesPortInUse) {
  const auto listener = listen_at("127.0.0.1:0").value();
  const auto port = local_address_of(listener.get()).value().port();
  const auto outcome = mobula({"start", "--head", "--port", std::to_string(port)});
  EXPECT_EQ(outcome.code, 1);
  expect_one_line(outcome, "port " + std::to_string(port));
  EXPECT_THAT(outcome.err, HasSubstr("--port"));
  EXPECT_THAT(outcome.err, HasSubstr("process " + std::to_string(::getpid()) + " ("));
}

TEST_F(ProgramTest, NamesUnwritableStateDirectory) {
  std::ofstream(directory_ + "/file") << "not a folder";
  const auto outcome = mobula({"start", "--head", "--state-dir", directory_ + "/file/state"});
  EXPECT_EQ(outcome.code, 1);
  expect_one_line(outcome, directory_ + "/file/state");
}

TEST_F(ProgramTest, Insecure_RejectsBindBeyondLoopback) {
  const auto outcome = mobula({"start", "--head", "--insecure", "--bind", "0.0.0.0"});
  EXPECT_EQ(outcome.code, 2);
  expect_one_line(outcome, "--insecure");
}

TEST_F(ProgramTest, Insecure_LocalClusterWorks) {
  const auto started = mobula({"start", "--head", "--insecure", "--num-cpus", "1", "-o", "json"});
  ASSERT_EQ(started.code, 0) << started.err;
  EXPECT_EQ(mobula({"status"}).code, 0);
}

TEST_F(ProgramTest, RejectsSecondHeadOfSameDirectory) {
  ASSERT_EQ(start_head().code, 0);
  const auto second = start_head();
  EXPECT_EQ(second.code, 1);
  expect_one_line(second, "runs already");
  EXPECT_THAT(second.err, HasSubstr("'mobula start --address 127.0.0.1:"))
      << "where its agent alone has died";
  EXPECT_EQ(mobula({"status"}).code, 0);
}

// ---- first use ---------------------------------------------------------------------------------

TEST_F(ProgramTest, RunWithoutCluster_ExitsWithThreeAtOnce) {
  const auto outcome = mobula({"run", "--", "true"});
  EXPECT_EQ(outcome.code, 3);
  expect_one_line(outcome, "find cluster: none is known");
  EXPECT_EQ(outcome.err.find("retrying"), std::string::npos);
  EXPECT_EQ(outcome.err.find("heard"), std::string::npos);
}

TEST_F(ProgramTest, RemoteHeadWithoutKey_IsRejected) {
  const auto outcome = mobula({"status", "--address", "192.0.2.1:5"});
  EXPECT_EQ(outcome.code, 4);
  expect_one_line(outcome, "give --key FILE or MOBULA_TOKEN");
}

TEST_F(ProgramTest, NamesUnknownHost) {
  const auto outcome = mobula({"status", "--address", "no-such-host.invalid:5"});
  EXPECT_TRUE(outcome.code == 2 || outcome.code == 3)
      << "the exit code depends on whether a name server answers: " << outcome.code;
  expect_one_line(outcome, "no-such-host.invalid");
}

TEST_F(ProgramTest, ListenerIsNoHead_ExitsWithFive) {
  const auto started = start_head();
  ASSERT_EQ(started.code, 0) << started.err;
  const auto listener = listen_at("127.0.0.1:0").value();
  const auto address = local_address_of(listener.get()).value().text();
  const auto outcome =
      mobula({"status", "--address", address, "--key", started.json()["key_file"]});
  EXPECT_EQ(outcome.code, 5);
  expect_one_line(outcome, "or another program listens there");
}

TEST_F(ProgramTest, TokensAreShownOnceAndRevocationRepeats) {
  ASSERT_EQ(start_head().code, 0);
  const std::string file = directory_ + "/hands.token";
  const auto made = mobula({"token", "create", "--role", "agent", "--file", file});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("--join @" + file));
  EXPECT_EQ(made.err.find("shown only once"), std::string::npos) << made.err;
  const std::string kept = text_of(file);
  const auto again = mobula({"token", "create", "--role", "agent", "--file", file});
  EXPECT_EQ(again.code, 2);
  expect_one_line(again, file);
  EXPECT_EQ(text_of(file), kept);

  const std::string eyes = directory_ + "/eyes.token";
  ASSERT_EQ(
      mobula({"token", "create", "--role", "observer", "--name", "eyes", "--file", eyes}).code, 0);
  ASSERT_EQ(mobula({"token", "revoke", "eyes"}).code, 0);
  const auto twice = mobula({"token", "revoke", "eyes"});
  EXPECT_EQ(twice.code, 0) << twice.err;
  EXPECT_THAT(twice.out, HasSubstr("was already revoked at 2"));
  ::setenv("MOBULA_TOKEN_FILE", eyes.c_str(), 1);
  const auto denied = mobula({"status"});
  ::unsetenv("MOBULA_TOKEN_FILE");
  EXPECT_EQ(denied.code, 4);
  expect_one_line(denied, "MOBULA_TOKEN_FILE is rejected; it was revoked");
}

TEST_F(ProgramTest, ExplainsPendingJobByName) {
  ASSERT_EQ(start_head().code, 0);
  ASSERT_EQ(mobula({"submit", "--no-wait", "--name", "big", "--num-gpus", "8", "--", "true"}).code,
            0);
  EXPECT_EQ(mobula({"get", "job", "big"}).code, 0);
  const auto explained = mobula({"explain", "big"});
  EXPECT_EQ(explained.code, 6) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("GPU"));
  EXPECT_THAT(mobula({"list", "jobs"}).out, HasSubstr("Infeasible"));
  const auto unknown = mobula({"list", "jobs", "--filter", "nofield=1"});
  EXPECT_EQ(unknown.code, 2);
  expect_one_line(unknown, "job_id");
  EXPECT_THAT(mobula({"list", "nodes", "--filter", "STATE=alive"}).out, HasSubstr("ALIVE"));
  EXPECT_EQ(mobula({"events", "--kind", "FOO"}).code, 2);
}

TEST_F(ProgramTest, ListsJobsLikeOtherKinds) {
  ASSERT_EQ(start_head().code, 0);
  ASSERT_EQ(mobula({"run", "--name", "later", "--label", "zone=a", "--", "true"}).code, 0);
  ASSERT_EQ(mobula({"run", "--name", "earlier", "--", "true"}).code, 0);
  EXPECT_EQ(mobula({"job", "list", "--columns", "name", "--no-headers"}).out, "later\nearlier\n")
      << "as they were submitted";
  EXPECT_EQ(
      mobula({"job", "list", "--filter", "name=earlier", "-o", "csv", "--columns", "name,state"})
          .out,
      "name,state\nearlier,SUCCEEDED\n");
  EXPECT_EQ(mobula({"job", "list", "--columns", "nothing"}).code, 2);
  const auto described =
      mobula({"describe", "job", "later", "--columns", "name,state", "--no-headers"});
  EXPECT_THAT(described.out, ::testing::StartsWith("later  SUCCEEDED\n")) << described.err;
  EXPECT_THAT(described.out, HasSubstr("JOB_ENDED"));
}

TEST_F(ProgramTest, FollowsLogOfEndedJobFromTail) {
  ASSERT_EQ(start_head().code, 0);
  ASSERT_EQ(mobula({"run", "--name", "three", "--", "sh", "-c", "echo a; echo b; echo c"}).code, 0);
  EXPECT_EQ(mobula({"job", "logs", "three", "--tail", "1", "-f"}).out, "c\n");
  EXPECT_EQ(mobula({"job", "logs", "three", "-f"}).out, "a\nb\nc\n");
}

TEST_F(ProgramTest, RunWithBlockedStdout_ObeysInterrupt) {
  ASSERT_EQ(start_head().code, 0);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::vector<std::string> words{program, "run", "--", "yes"};
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  ASSERT_EQ(::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ), 0);
  ::posix_spawn_file_actions_destroy(&actions);
  const int capacity = ::fcntl(ends[1], F_GETPIPE_SZ);
  int held = 0;
  EXPECT_TRUE(until([&] { return ::ioctl(ends[0], FIONREAD, &held) == 0 && held == capacity; }))
      << held;
  ::kill(pid, SIGINT);
  int status = 0;
  bool ended = false;
  until([&] { return ended = ended || ::waitpid(pid, &status, WNOHANG) == pid; });
  EXPECT_TRUE(ended) << "it waits for its reader";
  if (!ended) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
  }
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 130);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(ProgramTest, DriverTokenNextToWorker_WarnsOfKeys) {
  ASSERT_EQ(start_head().code, 0);
  const auto made = mobula({"token", "create", "--role", "driver", "--name", "wheel"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("operator.key"));
  EXPECT_THAT(made.err, HasSubstr("--no-worker"));
  EXPECT_THAT(made.err, HasSubstr("running worker continues"));
  EXPECT_THAT(mobula({"events", "--kind", "HEAD_KEYS_EXPOSED"}).out,
              ::testing::AllOf(HasSubstr("WARNING"), HasSubstr("token 'wheel'")));
  const auto checked = mobula({"doctor", "-o", "json"});
  EXPECT_EQ(checked.code, 1) << checked.out;
  EXPECT_THAT(checked.out, HasSubstr("driver token 'wheel' exists"));
  ASSERT_EQ(mobula({"stop"}).code, 0);
  ASSERT_EQ(mobula({"start", "--head", "--no-worker"}).code, 0);
  EXPECT_THAT(mobula({"token", "create", "--role", "driver", "--name", "other"}).err,
              ::testing::Not(HasSubstr("operator.key")));
}

TEST_F(ProgramTest, WorkerNextToHeadKeys_IsRefused) {
  const auto started = mobula({"start", "--head", "--no-worker", "-o", "json"});
  ASSERT_EQ(started.code, 0) << started.err;
  const std::vector<std::string> join{"start", "--address", started.json()["address"], "--key",
                                      cluster_dir() + "/default.key"};
  ASSERT_EQ(mobula({"token", "create", "--role", "driver", "--name", "wheel"}).code, 0);
  const auto refused = mobula(join);
  EXPECT_EQ(refused.code, 4) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("operator.key"));
  EXPECT_THAT(refused.err, HasSubstr("driver token 'wheel'"));
  EXPECT_THAT(refused.err, HasSubstr("--expose-head-keys"));
  auto allowed = join;
  allowed.push_back("--expose-head-keys");
  EXPECT_EQ(mobula(allowed).code, 0);
}

TEST_F(ProgramTest, HeadWithTokens_RefusesItsWorker) {
  ASSERT_EQ(start_head().code, 0);
  ASSERT_EQ(mobula({"stop"}).code, 0);
  ASSERT_EQ(mobula({"start", "--head", "--num-cpus", "1"}).code, 0) << "no token exists";
  ASSERT_EQ(mobula({"token", "create", "--role", "driver", "--name", "wheel"}).code, 0);
  ASSERT_EQ(mobula({"stop"}).code, 0);
  const auto refused = mobula({"start", "--head"});
  EXPECT_EQ(refused.code, 4) << refused.err;
  for (const char* part :
       {"operator.key", "driver token 'wheel'", "--no-worker", "--expose-head-keys"})
    EXPECT_THAT(refused.err, HasSubstr(part));
  EXPECT_EQ(mobula({"status"}).code, 3) << "the refused start has left no head";
  EXPECT_EQ(mobula({"start", "--head", "--expose-head-keys"}).code, 0);
  ASSERT_EQ(mobula({"stop"}).code, 0);
  const auto again = mobula({"start", "--head"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("--expose-head-keys")) << "reused";
  ASSERT_EQ(mobula({"stop"}).code, 0);
  EXPECT_EQ(mobula({"start", "--head", "--no-worker"}).code, 0);
}

// The ssh of the first command blocks until the test releases it and all later ones.
TEST_F(ProgramTest, RejectsConcurrentUp) {
  const std::string path = std::string(::getenv("PATH"));
  const std::string go = directory_ + "/go";
  ASSERT_EQ(::mkfifo(go.c_str(), 0600), 0);
  fs::create_directory(directory_ + "/bin");
  std::ofstream(directory_ + "/bin/ssh") << "#!/bin/sh\ntouch " + directory_ + "/asked\n[ -e " +
                                                directory_ + "/free ] || read word < " + go +
                                                "\nexit 255\n";
  fs::permissions(directory_ + "/bin/ssh", fs::perms::owner_all);
  std::ofstream(directory_ + "/c.yaml")
      << "cluster_name: one-at-a-time\nhead: {host: nowhere.invalid}\n";
  ::setenv("PATH", (directory_ + "/bin:" + path).c_str(), 1);
  ::setenv("XDG_RUNTIME_DIR", directory_.c_str(), 1);
  const pid_t first = ::fork();
  if (first == 0) {
    const std::string file = directory_ + "/c.yaml";
    ::close(STDOUT_FILENO);
    ::close(STDERR_FILENO);
    ::execl(program.c_str(), program.c_str(), "down", file.c_str(), nullptr);
    ::_exit(127);
  }
  ASSERT_TRUE(until([&] { return fs::exists(directory_ + "/asked"); }));
  const auto second = mobula({"down", directory_ + "/c.yaml"});
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err, HasSubstr("another `mobula up` or `down`"));
  std::ofstream(directory_ + "/free") << "";
  std::ofstream(go) << "on\n";
  int status = 0;
  ::waitpid(first, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 3) << "unreachable";
  ::setenv("PATH", path.c_str(), 1);
  ::unsetenv("XDG_RUNTIME_DIR");
}

TEST_F(ProgramTest, HeadHostUnreachable_IsTriedOnce) {
  const std::string path = std::string(::getenv("PATH"));
  fs::create_directory(directory_ + "/bin");
  std::ofstream(directory_ + "/bin/ssh")
      << "#!/bin/sh\necho asked >> " + directory_ +
             "/asked\necho 'ssh: connect to host nowhere.invalid "
             "port 22: No route to host' >&2\nexit 255\n";
  fs::permissions(directory_ + "/bin/ssh", fs::perms::owner_all);
  std::ofstream(directory_ + "/c.yaml") << "cluster_name: away\nhead: {host: nowhere.invalid}\n";
  ::setenv("PATH", (directory_ + "/bin:" + path).c_str(), 1);
  ::setenv("XDG_RUNTIME_DIR", directory_.c_str(), 1);
  const auto down = mobula({"down", directory_ + "/c.yaml"});
  ::setenv("PATH", path.c_str(), 1);
  ::unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(down.code, 3);
  EXPECT_THAT(down.out, HasSubstr("unreachable"));
  EXPECT_THAT(down.out, HasSubstr("No route to host"));
  EXPECT_EQ(text_of(directory_ + "/asked"), "asked\n");
}

TEST_F(ProgramTest, PrintsAddressOfHttpPages) {
  const auto plain = mobula({"start", "--head", "--no-worker", "--http", "127.0.0.1:0"});
  ASSERT_EQ(plain.code, 0) << plain.err;
  const auto head = load_head_file(cluster_dir() + "/head/head.json").value();
  ASSERT_EQ(mobula({"stop"}).code, 0);
  const std::string begin = "HTTP pages: http://127.0.0.1:";
  const auto at = plain.out.find(begin);
  ASSERT_NE(at, std::string::npos) << plain.out;
  const std::string url = plain.out.substr(at + 12, plain.out.find(". Example", at) - at - 12);
  EXPECT_EQ(url, head.http_url) << "the address it listens on, not the address in the flag";
  EXPECT_THAT(plain.out, HasSubstr("curl -H \"Authorization: Bearer $(cat " + cluster_dir()));
  EXPECT_THAT(plain.out, HasSubstr(")\" " + url + "/api/v1/status\n"));
  EXPECT_THAT(plain.out, HasSubstr("Web page: " + url + "/ (`mobula page`"));
  EXPECT_THAT(plain.out, ::testing::Not(HasSubstr("mobula-1-"))) << "the token is a secret";
  const auto json =
      mobula({"start", "--head", "--no-worker", "--http", "127.0.0.1:0", "-o", "json"});
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_TRUE(json.json()["http"].value("url", "").starts_with("http://127.0.0.1:")) << json.out;
}

TEST_F(ProgramTest, PrintsLinkOfWebPage) {
  ASSERT_EQ(mobula({"start", "--head", "--no-worker"}).code, 0);
  const auto none = mobula({"page"});
  EXPECT_EQ(none.code, 3);
  EXPECT_THAT(none.err, HasSubstr("start it with --http PORT"));
  ASSERT_EQ(mobula({"stop"}).code, 0);
  ASSERT_EQ(mobula({"start", "--head", "--no-worker", "--http", "127.0.0.1:0"}).code, 0);
  const auto head = load_head_file(cluster_dir() + "/head/head.json").value();
  const auto page = mobula({"page"});
  ASSERT_EQ(page.code, 0) << page.err;
  EXPECT_EQ(page.out, head.http_url + "/#" + text_of(head.http_token_file));
  EXPECT_EQ(mobula({"page", "-o", "json"}).json()["link"].get<std::string>() + "\n", page.out);
  EXPECT_THAT(text_of(cluster_dir() + "/head/head.log"), ::testing::Not(HasSubstr("mobula-1-")));
}

}  // namespace
}  // namespace mobula::internal
