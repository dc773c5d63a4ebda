// An actor that other programs call: another build, another compiler, another file name, and other
// types.
#include <filesystem>

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

}  // namespace
}  // namespace mobula::e2e
