// An actor that other programs call: another build, another compiler, another file name, and other
// types.
#include <csignal>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

class Services : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    start_head({"--num-cpus", "2"});
    const Ended started = run_program("kv_service", {});
    ASSERT_EQ(started.code, 0) << started.err;
    ASSERT_EQ(started.out, "the actor kv serves\n");
  }
};

TEST_F(Services, AnotherProgramCalls) {
  EXPECT_EQ(run_program("kv_client", {"put", "a", "3", "0.5"}).out, "stored a\n");
  EXPECT_EQ(run_program("kv_client", {"get", "a"}).out, "a: 3 of 0.5\n");
  EXPECT_EQ(run_program("kv_client", {"get", "b"}).out, "b is not stored\n");
  // A copy under another name is the same program; a client of another compiler is not.
  const std::string copy = directory() + "/renamed";
  std::filesystem::copy_file(programs + "/kv_client", copy);
  EXPECT_EQ(run_program(copy, {"get", "a"}).out, "a: 3 of 0.5\n");
  if (!std::filesystem::exists(programs + "/kv_client_of_other_compiler"))
    GTEST_SKIP() << "the machine has one compiler";
  EXPECT_EQ(run_program("kv_client_of_other_compiler", {"get", "a"}).out, "a: 3 of 0.5\n");
}

TEST_F(Services, OtherTypes_ErrorNamesPart) {
  const Ended ended = run_program("later_client", {});
  EXPECT_EQ(ended.code, 0) << ended.err;
  const auto has = [&](const std::string& text) {
    EXPECT_NE(ended.out.find(text), std::string::npos) << ended.out;
  };
  has("erase: ");
  has("has no method KV::erase; other programs can call: KV::put(string, struct Item) -> void, ");
  has("put: KV::put: parameter 2, member 2 is float32 in the caller's program and float64 in the "
      "program of the actor");
  has("get: KV::get: the result, element, member 2 is float32 in the caller's program and float64");
}

TEST_F(Services, ServiceRestarts_ClientsContinue) {
  EXPECT_EQ(run_program("kv_client", {"put", "a", "3", "0.5"}).out, "stored a\n");
  const auto executors = list("executors");
  ASSERT_TRUE(executors && executors->size() == 1) << executors.value_or(Json()).dump();
  ASSERT_EQ(::kill(executors->at(0).at("pid").get<pid_t>(), SIGKILL), 0);
  // The actor is constructed again, without items.
  EXPECT_TRUE(eventually(Milliseconds(20'000), [&] {
    return run_program("kv_client", {"get", "a"}).out == "a is not stored\n";
  }));
}

TEST_F(Services, CallsByJson) {
  const auto call = [&](Words words) {
    words.insert(words.begin(), {"call", "services/kv"});
    return mobula(words);
  };
  EXPECT_EQ(call({"put", R"(["a", [3, 0.5]])"}).out, "null\n");
  EXPECT_EQ(call({"KV::get", "a"}).out, "[3,0.5]\n");
  EXPECT_EQ(call({"get", R"("b")"}).out, "null\n");
  const Ended unknown = call({"erase", "a"});
  EXPECT_EQ(unknown.code, 7);
  EXPECT_NE(unknown.err.find("has no method erase; it has: KV::put(string, struct Item) -> void, "),
            std::string::npos)
      << unknown.err;
  const Ended wrong = call({"put", R"(["a", ["many", 0.5]])"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("argument 2 of KV::put(string, struct Item)"), std::string::npos)
      << wrong.err;
  EXPECT_EQ(call({"get"}).code, 2);
  EXPECT_EQ(mobula({"call", "services/nothing", "get", "a"}).code, 7);
}

TEST_F(Services, CallWithoutCluster_StartsNone) {
  stop("a");
  const Ended ended = mobula({"call", "services/kv", "get", "a"});
  EXPECT_EQ(ended.code, 3) << ended.out << ended.err;
  EXPECT_TRUE(processes().empty());
}

TEST_F(Services, Kill_EndsActorByNameOrId) {
  EXPECT_EQ(mobula({"kill", "nothing"}).code, 7);
  EXPECT_EQ(mobula({"kill", "kv", "--restart"}).code, 0);
  EXPECT_TRUE(eventually(Milliseconds(20'000), [&] {
    const auto actors = list("actors");
    return actors && actors->size() == 1 && actors->at(0).value("state", "") == "ALIVE" &&
           actors->at(0).value("restarts", 0) == 1;
  }));
  const Ended killed = mobula({"kill", "services/kv"});
  EXPECT_EQ(killed.code, 0) << killed.err;
  EXPECT_NE(killed.out.find("(KV 'kv') is killed"), std::string::npos) << killed.out;
  const Ended call = run_program("kv_client", {"get", "a"});
  EXPECT_EQ(call.code, 1);
  EXPECT_NE(call.err.find("no actor is named 'kv' in namespace 'services'"), std::string::npos)
      << call.err;
  EXPECT_TRUE(eventually(Milliseconds(10'000), [&] { return nothing_is_held(); }));
}

// Streams and handles, typed on both sides. The service dies in the middle of two streams.
TEST_F(Services, StreamsAndHandlesCrossPrograms) {
  const Ended service = run_program("feed_service", {});
  ASSERT_EQ(service.out, "the feed serves\n") << service.err;
  const Ended ended = run_program("feed_client", {directory()});
  EXPECT_EQ(ended.code, 0) << ended.err;
  for (const std::string text :
       {"reports: 0 1 2 3 4 end\n", " 38 39 end\n", "started: 0 1 2 end\n",
        "dies: 0 1 2 error: ", "repeats: 0 1 2 3 4 5 end\n", "counter: 7\n", "listener: 107\n"})
    EXPECT_NE(ended.out.find(text), std::string::npos) << text << "\n" << ended.out;
  EXPECT_EQ(ended.out.find("WRONG"), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("signal 9"), std::string::npos) << ended.out;
}

// JSON has no streams: the command names the method, and the actor serves further calls.
TEST_F(Services, CallsStreamByJson_ErrorNamesMethod) {
  ASSERT_EQ(run_program("feed_service", {}).out, "the feed serves\n");
  const Ended ended = mobula({"call", "services/feed", "reports", "[3]"});
  EXPECT_NE(ended.code, 0);
  EXPECT_NE(ended.err.find("Feed::reports(int64) -> stream of "), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find(" gives a stream, which has no JSON form; call it from a program"),
            std::string::npos)
      << ended.err;
  const Ended other = mobula({"call", "services/feed", "nothing", "[]"});
  EXPECT_NE(other.err.find("the actor has no method nothing"), std::string::npos) << other.err;
}

// A service that dies, and is started again, under clients that call without a pause.
class ServiceRestarts : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    start_head({"--num-cpus", "2"});
  }
  void start_service(int restarts) {
    const Ended started = run_program("ledger_service", {ledger(), std::to_string(restarts)});
    ASSERT_EQ(started.out, "the ledger serves\n") << started.err;
  }
  Process start_client(const std::string& name) {
    auto environment = environment_of("a");
    environment["MOBULA_ADDRESS"] = address();
    return Process({programs + "/ledger_client", name}, environment, directory() + "/" + name);
  }
  std::string ledger() const { return directory() + "/ledger"; }
  // Counts of the lines of a text.
  static std::map<std::string, int> lines_of(const std::string& text) {
    std::map<std::string, int> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) ++lines[line];
    return lines;
  }
  std::size_t calls() const { return lines_of(read_text(ledger())).size(); }
  // Waits until the clients have called `count` more times.
  bool called_again(std::size_t count) {
    const std::size_t before = calls();
    return eventually(Milliseconds(60'000), [&] { return calls() >= before + count; });
  }
  void kill_service() {
    const auto executors = list("executors");
    ASSERT_TRUE(executors && executors->size() == 1) << executors.value_or(Json()).dump();
    ASSERT_EQ(::kill(executors->at(0).at("pid").get<pid_t>(), SIGKILL), 0);
  }
  // No call ran twice, and each call that returned ran.
  void expect_each_once(Process& client) {
    client.say("stop");
    const Ended ended = client.wait(Milliseconds(120'000));
    EXPECT_EQ(ended.code, 0) << ended.err;
    const auto entries = lines_of(read_text(ledger()));
    for (const auto& [entry, count] : entries) EXPECT_EQ(count, 1) << entry;
    std::size_t returned = 0;
    for (const auto& [line, count] : lines_of(ended.out)) {
      if (!line.starts_with("ok ")) continue;
      ++returned;
      EXPECT_TRUE(entries.contains(line.substr(3))) << line << " did not run";
    }
    EXPECT_GT(returned, 0u);
  }
};

TEST_F(ServiceRestarts, Killed_ClientsContinue) {
  start_service(100);
  Process first = start_client("first");
  Process second = start_client("second");
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(called_again(20)) << first.err() << second.err();
    kill_service();
  }
  ASSERT_TRUE(called_again(20)) << first.err() << second.err();
  expect_each_once(first);
  expect_each_once(second);
}

// No restart is left: the clients wait for the next actor with the name.
TEST_F(ServiceRestarts, StartedAgain_ClientsFindIt) {
  start_service(0);
  Process client = start_client("client");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(called_again(20)) << client.err();
    kill_service();
    ASSERT_TRUE(eventually(Milliseconds(60'000), [&] { return list("executors")->empty(); }));
    start_service(0);
  }
  ASSERT_TRUE(called_again(20)) << client.err();
  expect_each_once(client);
}

// The process ends after a call has run and before its result leaves.
TEST_F(ServiceRestarts, DiesInACall_CallFailsOnce) {
  start_service(100);
  Process client = start_client("client");
  for (const std::string entry : {"\"die 1\"", "\"die 2\""}) {
    ASSERT_TRUE(called_again(20)) << client.err();
    const Ended ended = mobula({"call", "services/ledger", "enter", entry});
    EXPECT_EQ(ended.code, 1) << ended.out;
    EXPECT_NE(ended.err.find("signal 9"), std::string::npos) << ended.err;
  }
  ASSERT_TRUE(called_again(20)) << client.err();
  expect_each_once(client);
}

class LargeValues : public ClusterTest {
 protected:
  Process start(const Words& arguments) {
    auto environment = environment_of("a");
    environment["MOBULA_ADDRESS"] = address();
    Words command{programs + "/large_values"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return {command, environment, directory() + "/" + arguments[0]};
  }
};

TEST_F(LargeValues, CrossJobsOnOneNodeAndOnTwo) {
  start_head({"--num-cpus", "2", "--resources", R"({"here": 1})"});
  start_node("b", {"--num-cpus", "2", "--resources", R"({"there": 1})"});
  for (const std::string resource : {"here", "there"}) {
    const Ended started = run_program("large_values", {"serve", resource, resource});
    ASSERT_EQ(started.out, "6\n") << started.err;
    EXPECT_EQ(run_program("large_values", {"call", resource}).out, "all equal\n") << resource;
  }
}

// Values that no process has read are on the node of the service, whose job has ended there.
TEST_F(LargeValues, ServiceEnds_CallerReadsResults) {
  start_head({"--num-cpus", "2"});
  start_node("b", {"--num-cpus", "2", "--resources", R"({"there": 1})"});
  Process service = start({"once", "there", "there"});
  ASSERT_TRUE(service.prints("6\n")) << service.err();
  Process caller = start({"late", "there"});
  ASSERT_TRUE(caller.prints("made\n")) << caller.err();
  service.say("end");
  EXPECT_EQ(service.wait().code, 0);
  ASSERT_TRUE(eventually(Milliseconds(30'000), [&] {
    const auto executors = list("executors");
    return executors && executors->empty();
  }));
  caller.say("read");
  const Ended ended = caller.wait();
  EXPECT_EQ(ended.out, "made\n204800\n4194304\n") << ended.err;
}

}  // namespace
}  // namespace mobula::e2e
