// Commands submitted to a cluster of real processes: `mobula submit`, `run`, `wait` and `job …`.
#include <csignal>
#include <filesystem>
#include <fstream>

#include "e2e/cluster.h"
#include "e2e/relay.h"

namespace mobula::e2e {
namespace {

class Jobs : public ClusterTest {
 protected:
  Ended run(Words arguments) {
    Words words{"run"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return mobula(words);
  }
  // Submits `sh -c TEXT` with these flags, and returns the job's id.
  std::string submit(const std::string& text, Words flags = {}) {
    Words words{"submit", "--no-wait"};
    words.insert(words.end(), flags.begin(), flags.end());
    for (const char* word : {"--", "/bin/sh", "-c"}) words.emplace_back(word);
    words.push_back(text);
    Ended ended = mobula(words);
    EXPECT_EQ(ended.code, 0) << ended.err;
    while (!ended.out.empty() && ended.out.back() == '\n') ended.out.pop_back();
    EXPECT_EQ(ended.out.size(), 32u) << "the id alone: " << ended.out;
    return ended.out;
  }
  Json job(const std::string& id) {
    const Ended ended = mobula({"job", "status", "-o", "json", id});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return Json::parse(ended.out, nullptr, false);
  }
  std::string state(const std::string& id) {
    const Json row = job(id);
    return row.is_object() ? row.value("state", std::string()) : std::string();
  }
  bool becomes(const std::string& id, const std::string& wanted) {
    return eventually(Milliseconds(30'000), [&] { return state(id) == wanted; });
  }
  bool exists(const std::string& name) const {
    return !read_text(directory() + "/" + name).empty();
  }
  std::string file(const std::string& name) const { return directory() + "/" + name; }
};

TEST_F(Jobs, Run_StreamsOutputAndReturnsExitCode) {
  start_head();
  const Ended good = run({"--", "/bin/echo", "hello", "--name", "x"});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_EQ(good.out, "hello --name x\n");
  EXPECT_EQ(run({"--", "/usr/bin/printf", "no end"}).out, "no end") << "bytes as they are";
  EXPECT_EQ(run({"--", "sh", "-c", "exit 7"}).code, 7) << "found in PATH";
  const Ended killed = run({"--", "sh", "-c", "kill -9 $$"});
  EXPECT_EQ(killed.code, 137) << killed.err;
  EXPECT_NE(killed.err.find("FAILED"), std::string::npos) << killed.err;
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return nothing_is_held(); }));
}

TEST_F(Jobs, ReportsUnusableCommandsAndOptions) {
  start_head();
  const Ended missing = run({"--", "/no/such/program"});
  EXPECT_EQ(missing.code, 127);
  EXPECT_NE(missing.out.find("/no/such/program: No such file"), std::string::npos) << missing.out;
  EXPECT_EQ(run({"--", "no-such-name-in-path"}).code, 127);
  EXPECT_EQ(run({"--", "/etc/passwd"}).code, 127) << "not executable";
  const Ended directory = run({"--cwd", "/no/such/folder", "--", "pwd"});
  EXPECT_EQ(directory.code, 127);
  EXPECT_NE(directory.out.find("/no/such/folder"), std::string::npos) << directory.out;
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(run({"--name", "a\nb", "--", "true"}).code, 2);
  EXPECT_EQ(run({"--num-cpus", "-1", "--", "true"}).code, 2);
  EXPECT_EQ(run({"--env", "nothing", "--", "true"}).code, 2);
  EXPECT_EQ(mobula({"wait", "0123456789abcdef"}).code, 7);
  EXPECT_EQ(mobula({"job", "stop", "nobody"}).code, 7);
}

TEST_F(Jobs, SetsEnvironmentAndDirectory) {
  start_head();
  const Ended ended = run({"--env", "COLOUR=blue", "--env", "EMPTY=", "--cwd", directory(),
                           "--num-cpus", "2", "--", "sh", "-c",
                           "echo $COLOUR-$EMPTY-$PWD-$MOBULA_SUBMISSION_ATTEMPT-$OMP_NUM_THREADS; "
                           "test -n \"$MOBULA_ADDRESS\""});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "blue--" + directory() + "-1-2\n");
}

TEST_F(Jobs, JobProgram_JoinsClusterAsDriver) {
  start_head();
  const Ended ended = run({"--", programs + "/example_hello"});
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_EQ(ended.out, "16 15\n");
  EXPECT_TRUE(eventually(Milliseconds(10'000), [&] { return nothing_is_held(); }));
}

TEST_F(Jobs, ReturnsFullOutputAndExitCodeToWaiter) {
  start_head();
  const auto id = submit(
      "echo begins; while ! test -e " + file("go") + "; do sleep 0.05; done; echo ends; exit 5",
      {"--name", "waited"});
  ASSERT_TRUE(becomes(id, "RUNNING"));
  std::ofstream(file("go")) << "x";
  const Ended ended = mobula({"wait", id.substr(0, 8)});
  EXPECT_EQ(ended.code, 5) << ended.err;
  EXPECT_EQ(ended.out, "begins\nends\n");
  EXPECT_EQ(mobula({"wait", "waited"}).out, "begins\nends\n") << "again, and by name";
  const Ended list = mobula({"job", "list"});
  EXPECT_NE(list.out.find(id), std::string::npos);
  EXPECT_NE(list.out.find("FAILED"), std::string::npos) << list.out;
  EXPECT_EQ(mobula({"job", "logs", id, "--tail", "1"}).out, "ends\n");
}

TEST_F(Jobs, Stop_TerminatesTreeAfterGrace) {
  start_head();
  const std::string tree =
      "trap 'echo finishing; exit 0' TERM; (trap '' TERM; exec sleep 600) & echo $! > " +
      file("child") + "; setsid sleep 600 & echo $! > " + file("far") + "; echo up; wait; wait";
  const auto id = submit(tree, {"--grace", "2"});
  ASSERT_TRUE(eventually(Milliseconds(30'000), [&] {
    return exists("far") && mobula({"job", "logs", id}).out == "up\n";
  }));
  const auto child = std::stoi(read_text(file("child")));
  const auto far = std::stoi(read_text(file("far")));
  EXPECT_TRUE(runs(child));
  EXPECT_EQ(mobula({"job", "stop", id}).code, 0);
  ASSERT_TRUE(becomes(id, "STOPPED")) << job(id).dump(2);
  EXPECT_EQ(mobula({"job", "logs", id}).out, "up\nfinishing\n");
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return !runs(child) && !runs(far); }));
  EXPECT_EQ(mobula({"job", "stop", id}).code, 0) << "again is no error";
}

TEST_F(Jobs, SignalsProcessesOutsideTheTree) {
  start_head();
  // A process in its own session whose parent has exited, and one left by a program that exits by
  // itself.
  const std::string escapes = "setsid sh -c 'sh -c \"trap \\\"echo far >> " + file("told") +
                              "; exit\\\" TERM; echo x > " + file("far") +
                              "; while :; do sleep 0.1; done\" &' ; ";
  const auto id =
      submit(escapes + "trap 'exit 0' TERM; while :; do sleep 0.1; done", {"--grace", "30"});
  ASSERT_TRUE(eventually(Milliseconds(30'000), [&] { return exists("far"); }));
  EXPECT_EQ(mobula({"job", "stop", id}).code, 0);
  ASSERT_TRUE(becomes(id, "STOPPED"));
  EXPECT_EQ(read_text(file("told")), "far\n");
  std::filesystem::remove(file("far"));
  const Ended left =
      run({"--grace", "30", "--", "sh", "-c",
           escapes + "while ! test -e " + file("far") + "; do sleep 0.1; done; exit 4"});
  EXPECT_EQ(left.code, 4) << left.err;
  EXPECT_EQ(read_text(file("told")), "far\nfar\n");
}

// The process has its own session, a double fork, and an empty environment. Another job on the node
// continues.
TEST_F(Jobs, KillsDetachedProcessesOfThatJobOnly) {
  start_head();
  const auto detaches = [&](const std::string& name) {
    std::ofstream(file(name + ".sh"))
        << "echo $$ > " << file(name) << "\nwhile :; do /bin/sleep 0.05; done\n";
    return "setsid env -i /bin/sh -c '/usr/bin/setsid /usr/bin/env -i /bin/sh " +
           file(name + ".sh") + " </dev/null >/dev/null 2>&1 & exit 0'; while ! test -s " +
           file(name) + "; do sleep 0.02; done; ";
  };
  const auto goes_on = submit(detaches("kept") + "echo up; exec sleep 600", {"--num-cpus", "1"});
  ASSERT_TRUE(eventually(Milliseconds(30'000), [&] {
    return mobula({"job", "logs", goes_on}).out == "up\n";
  }));
  const auto kept = std::stoi(read_text(file("kept")));
  const Ended left =
      run({"--grace", "0", "--num-cpus", "1", "--", "sh", "-c", detaches("left") + "exit 4"});
  EXPECT_EQ(left.code, 4) << left.err;
  EXPECT_FALSE(runs(std::stoi(read_text(file("left")))))
      << "it ends before its job counts as ended";
  const auto stopped = submit(detaches("far") + "echo up; exec sleep 600", {"--num-cpus", "1"});
  ASSERT_TRUE(eventually(Milliseconds(30'000), [&] {
    return mobula({"job", "logs", stopped}).out == "up\n";
  }));
  const auto far = std::stoi(read_text(file("far")));
  EXPECT_TRUE(runs(far));
  EXPECT_EQ(mobula({"job", "stop", stopped}).code, 0);
  ASSERT_TRUE(becomes(stopped, "STOPPED"));
  EXPECT_FALSE(runs(far));
  EXPECT_TRUE(runs(kept)) << "another job's";
  EXPECT_EQ(state(goes_on), "RUNNING");
  EXPECT_EQ(mobula({"job", "stop", goes_on}).code, 0);
  ASSERT_TRUE(becomes(goes_on, "STOPPED"));
  EXPECT_FALSE(runs(kept));
}

TEST_F(Jobs, Drain_GivesJobItsGraceBeforeDeadline) {
  start_head();
  const auto id = submit("trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done",
                         {"--grace", "20"});
  ASSERT_TRUE(eventually(Milliseconds(30'000), [&] {
    return mobula({"job", "logs", id}).out == "up\n";
  }));
  const std::string node = job(id).value("node_id", std::string());
  EXPECT_EQ(mobula({"drain", node, "--deadline", "25"}).code, 0)
      << "the job has ended before the deadline";
  ASSERT_TRUE(becomes(id, "FAILED"));
  EXPECT_NE(mobula({"job", "logs", id}).out.find("saved\n"), std::string::npos);
  EXPECT_NE(job(id).value("reason", std::string()).find("drained"), std::string::npos)
      << job(id).dump();
}

TEST_F(Jobs, DrainDeadlineShorterThanGrace_Warns) {
  start_head();
  const auto id =
      submit("trap 'echo told' TERM; echo up; while :; do sleep 0.1; done", {"--name", "stubborn"});
  ASSERT_TRUE(eventually(Milliseconds(30'000), [&] {
    return mobula({"job", "logs", id}).out == "up\n";
  }));
  const Ended drained =
      mobula({"drain", job(id).value("node_id", std::string()), "--deadline", "3"});
  EXPECT_EQ(drained.code, 0) << drained.err;
  EXPECT_NE(
      drained.err.find("job " + id + " (stubborn) is asked to end now, since its grace (10 s)"),
      std::string::npos)
      << drained.err;
  EXPECT_NE(drained.out.find("1 job was ended by the drain: " + id + " (stubborn)\n"),
            std::string::npos)
      << drained.out;
  EXPECT_NE(drained.out.find("1 lease was still held at the deadline and killed"),
            std::string::npos)
      << drained.out;
  EXPECT_NE(mobula({"job", "logs", id}).out.find("told\n"), std::string::npos)
      << "it was asked first";
  EXPECT_EQ(job(id)["state"], "FAILED");
}

TEST_F(Jobs, GpuJob_RequestsNoCpu) {
  start_head({"--num-cpus", "1", "--num-gpus", "1"});
  const auto id = submit("sleep 600", {"--num-cpus", "1"});
  ASSERT_TRUE(becomes(id, "RUNNING"));
  EXPECT_EQ(run({"--num-gpus", "1", "--", "true"}).code, 0) << "the only CPU is taken";
  EXPECT_EQ(mobula({"job", "stop", id}).code, 0);
}

TEST_F(Jobs, ShipsWorkdirAndRemovesItAfterwards) {
  start_head();
  std::filesystem::create_directories(file("project/data"));
  std::ofstream(file("project/data/in.txt")) << "from here\n";
  std::ofstream(file("project/main.sh"))
      << "cat data/in.txt; echo new > data/out.txt; cat data/out.txt; pwd\n";
  for (int round = 0; round < 2; ++round) {
    const Ended ended = run({"--workdir", file("project"), "--", "sh", "main.sh"});
    EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
    EXPECT_EQ(ended.out.rfind("from here\nnew\n", 0), 0u) << ended.out;
    EXPECT_EQ(ended.out.find(file("project")), std::string::npos) << "it is a copy: " << ended.out;
    EXPECT_FALSE(std::filesystem::exists(file("project/data/out.txt")));
    std::string directory_exists = ended.out.substr(14);
    while (!directory_exists.empty() && directory_exists.back() == '\n')
      directory_exists.pop_back();
    EXPECT_TRUE(directory_exists.starts_with("/")) << directory_exists;
    EXPECT_TRUE(eventually(Milliseconds(30'000), [&] {
      return !std::filesystem::exists(directory_exists);
    })) << directory_exists;
  }
  std::filesystem::create_symlink("/etc/passwd", file("project/out"));
  const Ended refused = run({"--workdir", file("project"), "--", "true"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("project/out: is a link"), std::string::npos) << refused.err;
  EXPECT_EQ(run({"--workdir", "/no/such/folder", "--", "true"}).code, 2);
}

TEST_F(Jobs, ShipsProgramWithLibrariesAndRunsIt) {
  start_head();
  std::filesystem::copy_file(programs + "/example_hello", file("hello"));
  const Ended ended = run({"--ship", file("hello"), "--cwd", "/", "--", file("hello")});
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_EQ(ended.out, "16 15\n");
  std::filesystem::remove(file("hello"));
  std::ofstream(file("script")) << "#!/bin/sh\ntest \"$MINE$LD_PRELOAD\" = yes/x.so && exit 7\n";
  EXPECT_EQ(run({"--ship", file("script"), "--env", "MINE=yes", "--env", "LD_PRELOAD=/x.so", "--",
                 "script"})
                .code,
            7);
  EXPECT_EQ(run({"--ship", file("script"), "--", "no-such-program"}).code, 127);
  const auto id = submit("echo up; exec sleep 600", {"--ship", file("script")});
  ASSERT_TRUE(eventually(Milliseconds(30'000), [&] {
    return mobula({"job", "logs", id}).out == "up\n";
  }));
  EXPECT_EQ(mobula({"job", "stop", id}).code, 0);
  ASSERT_TRUE(becomes(id, "STOPPED"));
  EXPECT_EQ(job(id)["signal"], SIGTERM) << "the program itself got it";
}

TEST_F(Jobs, TransfersFilesToNodeThatLacksThem) {
  start_head({"--num-cpus", "1"});
  start_node("far", {"--num-cpus", "1", "--resources", R"({"far": 1})"});
  std::filesystem::create_directories(file("project"));
  std::ofstream(file("project/large")) << std::string(3'000'000, 'x');
  const Ended ended = run(
      {"--resources", R"({"far": 1})", "--workdir", file("project"), "--", "wc", "-c", "large"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "3000000 large\n");
}

TEST_F(Jobs, ReadsOptionsFromBatchScript) {
  start_head();
  std::ofstream(file("good.sh"))
      << "#!/bin/sh\n#MOBULA --name from-script --env 'WORDS=a b'\n# more\n#MOBULA --retries 1\n\n"
         "echo \"$WORDS|$1|$2\"; test $MOBULA_SUBMISSION_ATTEMPT = 2\n";
  const Ended ended =
      mobula({"batch", "--name", "from-line", file("good.sh"), "--", "one", "--two"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "a b|one|--two\na b|one|--two\n");
  EXPECT_NE(mobula({"job", "list"}).out.find("from-line"), std::string::npos)
      << "the command line counts";
  const Ended alone = mobula({"batch", "--no-wait", file("good.sh")});
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_EQ(alone.out.size(), 33u) << alone.out;
  std::ofstream(file("bad.sh"))
      << "#!/bin/sh\n#MOBULA --unknown\n#MOBULA --num-cpus many\necho\n#MOBULA --name late\n";
  const Ended bad = mobula({"batch", file("bad.sh")});
  EXPECT_EQ(bad.code, 2);
  for (const char* location : {"bad.sh:2: ", "bad.sh:3: ", "bad.sh:5: "}) {
    EXPECT_NE(bad.err.find(location), std::string::npos) << location << bad.err;
  }
}

TEST_F(Jobs, SigtermIgnored_KilledAfterGrace) {
  start_head();
  const auto id = submit("trap '' TERM; echo up; while :; do sleep 1; done", {"--grace", "0.5"});
  ASSERT_TRUE(eventually(Milliseconds(30'000), [&] {
    return mobula({"job", "logs", id}).out == "up\n";
  }));
  EXPECT_EQ(mobula({"job", "stop", id}).code, 0);
  ASSERT_TRUE(becomes(id, "STOPPED"));
  EXPECT_EQ(job(id)["signal"], SIGKILL);
}

TEST_F(Jobs, TimeLimitReached_TerminatesJob) {
  start_head();
  const Ended ended = run({"--time-limit", "0.3", "--", "sleep", "600"});
  EXPECT_EQ(ended.code, 128 + SIGTERM) << ended.err;
  EXPECT_NE(ended.err.find("time limit of 300 ms"), std::string::npos) << ended.err;
}

TEST_F(Jobs, RetriesOnlyWhenRequested) {
  start_head();
  const std::string fails_twice =
      "n=$(cat N 2>/dev/null || echo 0); echo $((n+1)) > N; echo attempt "
      "$MOBULA_SUBMISSION_ATTEMPT; test $n -ge 2";
  const Ended again = run({"--retries", "5", "--cwd", directory(), "--", "sh", "-c", fails_twice});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, "attempt 1\nattempt 2\nattempt 3\n");
  EXPECT_EQ(run({"--retries", "1", "--", "sh", "-c", "echo once more; exit 3"}).out,
            "once more\nonce more\n");
  EXPECT_EQ(run({"--", "sh", "-c", "echo once; exit 3"}).out, "once\n");
}

TEST_F(Jobs, Interrupt_StopsRunButNotSubmission) {
  start_head();
  const std::string binary = programs + "/mobula";
  for (const bool ends : {true, false}) {
    Process follower({binary, ends ? "run" : "submit", "--name", ends ? "ended" : "left", "--",
                      "sh", "-c", "echo up; exec sleep 600"},
                     environment_of("a"), directory() + (ends ? "/ended" : "/left"));
    ASSERT_TRUE(follower.prints("up"));
    follower.signal(SIGINT);
    EXPECT_EQ(follower.wait().code, 130);
    EXPECT_EQ(state(ends ? "ended" : "left"), ends ? "STOPPED" : "RUNNING");
  }
  EXPECT_EQ(mobula({"job", "stop", "left"}).code, 0);
  EXPECT_TRUE(becomes("left", "STOPPED"));
}

// The job runs on the second node. Its agent is killed with all its processes.
TEST_F(Jobs, NodeKilled_JobIsLostOrRetried) {
  start_head();
  start_node("b", {"--num-cpus", "2", "--resources", "{\"here\": 2}"});
  const Words here{"--resources", "{\"here\": 1}"};
  const auto lost = submit("echo up; exec sleep 600", here);
  const auto moved = submit(
      "echo attempt $MOBULA_SUBMISSION_ATTEMPT; test $MOBULA_SUBMISSION_ATTEMPT = 2 || exec sleep "
      "600",
      {"--retries", "1", "--resources", "{\"here\": 1}"});
  ASSERT_TRUE(becomes(lost, "RUNNING"));
  ASSERT_TRUE(becomes(moved, "RUNNING"));
  ASSERT_EQ(::kill(agent_pid("b"), SIGKILL), 0);
  ASSERT_TRUE(becomes(lost, "LOST")) << job(lost).dump(2);
  EXPECT_EQ(mobula({"wait", lost}).code, 1);
  ASSERT_TRUE(becomes(moved, "PENDING")) << "no other node will do: " << job(moved).dump(2);
  start_node("b", {"--num-cpus", "2", "--resources", "{\"here\": 2}"});
  const Ended ended = mobula({"wait", moved});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("attempt 2\n"), std::string::npos) << ended.out;
}

// The head has ordered the start, the node has started the job, and the report is in transit when
// both are killed.
TEST_F(Jobs, HeadAndNodeKilledDuringStart_StartsOnce) {
  start_head({"--num-cpus", "1"});
  const Words two{"--num-cpus", "2", "--resources", R"({"here": 2})"};
  Relay relay(address());
  start_node("b", two, relay.address());
  const auto node = node_id("b");
  const auto begin_submitting = [&](const std::string& name, const std::string& then, Words flags) {
    Words words{programs + "/mobula", "submit", "--no-wait", "--name", name};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", "/bin/sh", "-c",
                               "echo $MOBULA_SUBMISSION_ATTEMPT >> " + file(name) + "; " + then});
    return Process(words, environment_of("a"), directory() + "/log/submits-" + name);
  };
  relay.hold_what_goes_to_target();
  // Submits both at once: a node that is silent for 3 s gets no more work.
  Process first = begin_submitting("once", "exec sleep 600", {"--resources", R"({"here": 1})"});
  Process second =
      begin_submitting("again", "test $MOBULA_SUBMISSION_ATTEMPT = 2 || exec sleep 600",
                       {"--retries", "1", "--resources", R"({"here": 1})"});
  EXPECT_EQ(first.wait().code, 0) << first.err();
  EXPECT_EQ(second.wait().code, 0) << second.err();
  ASSERT_TRUE(eventually(Milliseconds(30'000), [&] { return exists("once") && exists("again"); }));
  EXPECT_NE(state("once"), "RUNNING") << "no report of the job has arrived";
  ASSERT_EQ(::kill(head_pid(), SIGKILL), 0);
  ASSERT_EQ(::kill(agent_pid("b"), SIGKILL), 0);

  start_head({"--no-worker"});
  start_node("b", two);
  const Ended ended = mobula({"wait", "again"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(read_text(file("again")), "1\n2\n");
  ASSERT_TRUE(becomes("once", "LOST")) << job("once").dump(2);
  EXPECT_EQ(job("once")["node_id"], node);
  EXPECT_EQ(job("once")["attempts"], 1);
  EXPECT_EQ(read_text(file("once")), "1\n");
}

TEST_F(Jobs, HeadKilled_FilesOfPendingJobSurvive) {
  start_head({"--num-cpus", "1"});
  std::filesystem::create_directories(file("project"));
  std::ofstream(file("project/words")) << "still here\n";
  const auto holds =
      submit("while ! test -e " + file("go") + "; do sleep 0.05; done", {"--num-cpus", "1"});
  ASSERT_TRUE(becomes(holds, "RUNNING"));
  const auto waits = submit("cat words", {"--num-cpus", "1", "--workdir", file("project")});
  std::filesystem::remove_all(file("project"));
  ASSERT_EQ(::kill(head_pid(), SIGKILL), 0);
  start_head({"--no-worker"});
  EXPECT_EQ(state(waits), "PENDING");
  std::ofstream(file("go")) << "x";
  const Ended ended = mobula({"wait", waits});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "still here\n");
}

TEST_F(Jobs, HeadKilled_HistoryAndRunningJobsSurvive) {
  start_head();
  EXPECT_EQ(run({"--name", "before", "--", "sh", "-c", "echo kept; exit 9"}).code, 9);
  const std::string waits = "; while ! test -e " + file("go") + "; do sleep 0.05; done; ";
  const auto short_one = submit("echo short" + waits + "echo done; trap 'echo x > " +
                                file("ended") + "' EXIT; exit 4");
  const auto long_one = submit("echo long; while ! test -e " + file("later") +
                               "; do sleep 0.05; done; echo over; exit 6");
  ASSERT_TRUE(becomes(short_one, "RUNNING"));
  ASSERT_TRUE(becomes(long_one, "RUNNING"));
  ASSERT_EQ(::kill(head_pid(), SIGKILL), 0);
  std::ofstream(file("go")) << "x";  // the short job ends while no head runs
  ASSERT_TRUE(eventually(Milliseconds(30'000), [&] { return exists("ended"); }));
  start_head({"--no-worker"});
  EXPECT_EQ(job("before")["state"], "FAILED");
  EXPECT_EQ(job("before")["exit_code"], 9);
  EXPECT_EQ(mobula({"job", "logs", "before"}).out, "kept\n");
  std::ofstream(file("later")) << "x";
  EXPECT_EQ(mobula({"wait", short_one}).code, 4);
  const Ended ended = mobula({"wait", long_one});
  EXPECT_EQ(ended.code, 6) << ended.err;
  EXPECT_EQ(ended.out, "long\nover\n");
}

}  // namespace
}  // namespace mobula::e2e
