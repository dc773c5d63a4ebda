// Untyped calls of functions and methods of another program, with neutral values.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

class NeutralCalls : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    start_head({"--num-cpus", "2"});
    service_.emplace(start("neutral_service", {"neutral_service"}));
    ASSERT_TRUE(service_->prints("serving")) << service_->err();
  }
  void TearDown() override {
    service_.reset();
    ClusterTest::TearDown();
  }
  Process start(const std::string& program, Words arguments) {
    auto environment = environment_of("a");
    environment["MOBULA_ADDRESS"] = address();
    arguments.insert(arguments.begin(), programs + "/" + program);
    return Process(arguments, environment, directory() + "/" + program + arguments[1]);
  }
  // The lines that the client prints.
  std::string client(const std::string& part) {
    const char* mib = std::getenv("MOBULA_TEST_MIB");
    const Ended ended =
        run_program("neutral_client", {part, "neutral_service", mib == nullptr ? "1" : mib});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return ended.out;
  }

  std::optional<Process> service_;
};

// By hand: MOBULA_TEST_MIB=64 for the largest value.
TEST_F(NeutralCalls, ValuesReturnEqual) {
  std::istringstream lines(client("values"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_EQ(line.find("DIFFERENT"), std::string::npos) << line;
  EXPECT_EQ(count, 47);
}

TEST_F(NeutralCalls, OtherTypes_ErrorNamesMember) {
  const std::string out = client("errors");
  const auto has = [&](const std::string& text) {
    EXPECT_NE(out.find(text), std::string::npos) << text << "\n---\n" << out;
  };
  const std::string way = " from program neutral_client to program neutral_service: ";
  has("argument 1 of same_int(int64) -> int64" + way + "\"text\" is not a whole number from ");
  has(way + "0.5 is not a whole number from ");
  has(way + "18446744073709551615 is not a whole number from ");
  has("argument 1 of same_small(int8) -> int8" + way +
      "128 is not a whole number from -128 to 127");
  has("argument 1 of same_double(float64) -> float64" + way + "\"nan\" is not a number");
  has("argument 1 of same_text(string) -> string" + way + "\"1 bytes\" is not text");
  has(way + "null is not a whole number");  // NaN
  has("argument 1 of same_bytes(sequence) -> sequence" + way + "\"text\" is not an array");
  has("argument 1 of same_struct(struct Outer) -> struct Outer" + way +
      "at [1][0][0]: \"four\" is not a whole number");
  has("is not an array of 4 elements");
  has("same_int(int64) -> int64 takes 1 arguments, and 0 are given" +
      way.substr(0, way.size() - 2));
  has("same_int(int64) -> int64 takes 1 arguments, and 2 are given");
  has("argument 1 of sum(mobula::Tensor) -> float64" + way + "1 is not a tensor");
  has("the result of broken_text() -> string: its text is not UTF-8");
  has("the result of broken_member() -> tuple: member 2: its text is not UTF-8");
  has("several functions of program neutral_service match twin: first::twin(int32) -> int32, "
      "second::twin(int32) -> int32; the caller is program neutral_client");
  has("program neutral_service has no function same_itn; did you mean same_int?");
  has("; the caller is program neutral_client");
  has("no luck");
  has("nested: a neutral value: it nests deeper than 256 levels");
  has("reading a value in format \"neutral/1\": it was written in format \"other/1\"");
  has("argument 1 of same_int(int64) -> int64" + way + "reading a value in format ");
  has("results: ");
  has("the call of nothing() -> void" + way.substr(0, way.size() - 2) +
      " expects 2 results, and it has 1");
  has("create: create Store of program neutral_service: ");
  has("program: find program 'neutral_servise': no running job has this name; did you mean "
      "'neutral_service'?");
  EXPECT_EQ(out.find("no error"), std::string::npos) << out;
}

// Refs as arguments and results, also inside of values, and values of refs.
TEST_F(NeutralCalls, RefsCrossPrograms) {
  const std::string out = client("refs");
  EXPECT_EQ(out.find("DIFFERENT"), std::string::npos) << out;
  int equal = 0;
  for (auto at = out.find(": equal\n"); at != std::string::npos; at = out.find(": equal\n", at + 1))
    ++equal;
  EXPECT_EQ(equal, 10) << out;
  const std::string way = " from program neutral_client to program neutral_service: ";
  for (const std::string& text :
       {std::string("reading a value as long (format \"c++\"): it was written in format "
                    "\"neutral/1\""),
        std::string("C++ ref read here: reading a value in format \"neutral/1\": it was written in "
                    "format \"c++\"; pass its ref to a function of its program"),
        "argument 1 of read_ref(mobula::ObjectRef<long>) -> int64" + way + "5 is not a ref",
        "argument 1 of same_int(int64) -> int64" + way + "\"a ref\" is not a whole number",
        "argument 1 of same_text(string) -> string" + way +
            "the value of its ref was written by C++ as another type",
        "argument 1 of share(struct Shared) -> struct Shared" + way +
            "at [1][0]: [\"a ref\"] is not "
            "a ref"})
    EXPECT_NE(out.find(text), std::string::npos) << text << "\n---\n" << out;
  EXPECT_EQ(out.find("no error"), std::string::npos) << out;
}

// A tuple or an array as separate results, of functions and of deferred ones.
TEST_F(NeutralCalls, SeveralResults) {
  const std::string out = client("results");
  for (const std::string name : {"three", "three as one", "both", "deferred", "none"})
    EXPECT_NE(out.find(name + ": equal\n"), std::string::npos) << name << "\n---\n" << out;
  const std::string way = " from program neutral_client to program neutral_service";
  for (const std::string& text :
       {"the call of three(int64) -> tuple" + way + " expects 4 results, and it has 1 or 3",
        "the call of same_int(int64) -> int64" + way + " expects 2 results, and it has 1",
        std::string("the result of broken_third() -> tuple: member 3: its text is not UTF-8"),
        std::string("; program neutral_service, called by program neutral_client")})
    EXPECT_NE(out.find(text), std::string::npos) << text << "\n---\n" << out;
  EXPECT_EQ(out.find("no error"), std::string::npos) << out;
}

// Tensors as arguments and results, also inside of values, by every path. By hand:
// MOBULA_TEST_MIB=64.
TEST_F(NeutralCalls, TensorsReturnEqual) {
  const std::string out = client("tensors");
  EXPECT_EQ(out.find("DIFFERENT"), std::string::npos) << out;
  int equal = 0;
  for (auto at = out.find(": equal\n"); at != std::string::npos; at = out.find(": equal\n", at + 1))
    ++equal;
  EXPECT_EQ(equal, 57) << out;
  const std::string way = " from program neutral_client to program neutral_service: ";
  const std::string tensor = "argument 1 of same_tensor(mobula::Tensor) -> mobula::Tensor" + way;
  for (const std::string& text :
       {tensor + "5 is not a tensor", tensor + "null is not a tensor",
        tensor + "\"a ref\" is not a tensor",
        "argument 1 of same_int(int64) -> int64" + way + "\"a tensor\" is not a whole number",
        "argument 1 of same_bytes(sequence) -> sequence" + way + "\"a tensor\" is not an array",
        way + "\"a tensor\" is not a ref",
        "argument 1 of same_model(struct Model) -> struct Model" + way +
            "at [1][1]: 2 is not a tensor",
        tensor + "the bytes are not a msgpack value with text keys, refs, tensors, and "
                 "handles that it has",
        std::string("it was read from an object")})
    EXPECT_NE(out.find(text), std::string::npos) << text << "\n---\n" << out;
  EXPECT_EQ(out.find("no error"), std::string::npos) << out;
}

// Types that do not cross: the error names the member and both programs.
TEST_F(NeutralCalls, OtherKinds_ErrorNamesMemberAndPrograms) {
  const std::string out = client("types");
  for (const std::string text :
       {"argument 1 of takes_reader(struct Reader) -> int32 from program neutral_client to program "
        "neutral_service: member 2: element: mobula::ObjectRefStream<int> has no neutral form: it "
        "is a stream or a view; a function that returns mobula::generator gives a stream",
        "the result of gives_stream() -> tuple of program neutral_service: member 2: "
        "mobula::ObjectRefStream<int> has no neutral form: it is a stream or a view; a function "
        "that returns mobula::generator gives a stream; the caller is program neutral_client",
        "an item of gives_streams() -> stream of mobula::ObjectRefStream<int> of program "
        "neutral_service: mobula::ObjectRefStream<int> has no neutral form"})
    EXPECT_NE(out.find(text), std::string::npos) << text << "\n---\n" << out;
  EXPECT_EQ(out.find("no error"), std::string::npos) << out;
}

TEST_F(NeutralCalls, CallsMethodsOfActor) {
  const std::string out = client("actor");
  for (const std::string line :
       {"put: nil\n", "get: equal\n", "later: x\n", "both: equal\n", "kept: equal\n"})
    EXPECT_NE(out.find(line), std::string::npos) << out;
  for (const std::string text :
       {"as long (format \"c++\"): it was written in format \"neutral/1\"",
        "the call of Store::both() -> tuple from program neutral_client to program neutral_service "
        "expects a stream, and it has one result; call it without Returns::streaming"})
    EXPECT_NE(out.find(text), std::string::npos) << text << "\n" << out;
  for (const std::string text :
       {"argument 2 of Store::put(string, struct Inner) -> void from program neutral_client to "
        "program neutral_service: at [0]: \"three\" is not a whole number",
        "program neutral_service has no method erase", "; the caller is program neutral_client",
        "get_actor: \"store\" is a Store, not a Shop"})
    EXPECT_NE(out.find(text), std::string::npos) << text << "\n" << out;
}

// Items of every kind, errors, and deaths of the producer by SIGKILL in the middle of a stream.
TEST_F(NeutralCalls, StreamsCrossPrograms) {
  const Ended ended = run_program("neutral_client", {"streams", "neutral_service", directory()});
  EXPECT_EQ(ended.code, 0) << ended.err;
  const std::string way = " from program neutral_client to program neutral_service";
  for (const std::string& text :
       {std::string("count: 0 1 2 3 4 end\n"), std::string("none: end\n"),
        std::string("window: equal\n"), std::string("items: equal\n"),
        std::string("batches: equal\nbatches: equal\n"), std::string("dropped: 0 1 error: "),
        std::string("no further item"),
        std::string("broken: an item of broken_items() -> stream of string: its text is not UTF-8; "
                    "std::vector<std::byte> has any bytes; program neutral_service, called by "
                    "program neutral_client"),
        // A repeated run gives each item once.
        std::string("function repeats: 0 1 2 3 4 5 end\n"),
        std::string("function dies: 0 1 2 error: "), std::string("actor dies: 0 1 2 error: "),
        std::string("actor repeats: 0 1 2 3 4 5 end\n"),
        "one result: error: the call of same_int(int64) -> int64" + way +
            " expects a stream, and it has one result; call it without Returns::streaming",
        "a stream: the call of count_to(int64) -> stream of int64" + way +
            " expects results, and it gives a stream; set Returns::streaming",
        std::string("unknown: program neutral_service has no function count_too; did you mean "
                    "count_to?")})
    EXPECT_NE(ended.out.find(text), std::string::npos) << text << "\n---\n" << ended.out;
  EXPECT_EQ(ended.out.find("DIFFERENT"), std::string::npos) << ended.out;
}

// Handles as arguments and results, also inside of values. An actor ends with its last handle,
// which another program has.
TEST_F(NeutralCalls, HandlesCrossPrograms) {
  Process client = start("neutral_client", {"handles", "neutral_service"});
  ASSERT_TRUE(client.prints("held")) << client.err();
  const auto has_actors = [&](std::size_t count) {
    const auto actors = list("actors");
    if (!actors) return false;
    const auto alive = std::ranges::count_if(
        *actors, [](const Json& each) { return each.value("state", "") == "ALIVE"; });
    return static_cast<std::size_t>(alive) == count;
  };
  EXPECT_TRUE(eventually(Milliseconds(20'000), [&] { return has_actors(2); }));
  client.say("drop");
  ASSERT_TRUE(client.prints("dropped")) << client.err();
  EXPECT_TRUE(eventually(Milliseconds(20'000), [&] { return has_actors(1); }));
  client.say("end");
  const Ended ended = client.wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  for (const std::string name :
       {"same handle", "empty handle", "read there", "call", "read made", "inside", "by ref"})
    EXPECT_NE(ended.out.find(name + ": equal\n"), std::string::npos) << name << "\n" << ended.out;
  const std::string way = " from program neutral_client to program neutral_service: ";
  const std::string handle =
      "argument 1 of same_store(mobula::ActorHandle<Store>) -> mobula::ActorHandle<Store>" + way;
  for (const std::string& text :
       {std::string("method: program neutral_service has no method erase"),
        handle + "5 is not a handle", handle + "\"a ref\" is not a handle",
        "argument 1 of same_int(int64) -> int64" + way + "\"a handle\" is not a whole number",
        handle + "the bytes are not a msgpack value with text keys, refs, tensors, and handles"})
    EXPECT_NE(ended.out.find(text), std::string::npos) << text << "\n---\n" << ended.out;
}

// Functions and actors of the other program are killed in the middle of calls.
TEST_F(NeutralCalls, ExecutorKilled_CallFails) {
  const std::string out = client("deaths");
  EXPECT_NE(out.find("signal 9"), std::string::npos) << out;
  for (const std::string line : {"after: 5\n", "again: nil\n"})
    EXPECT_NE(out.find(line), std::string::npos) << out;
  EXPECT_EQ(out.find("no error"), std::string::npos) << out;
}

TEST_F(NeutralCalls, ProgramKilled_WaitingCallFails) {
  Process client = start("neutral_client", {"waits", "neutral_service"});
  ASSERT_TRUE(client.prints("waiting")) << client.err();
  ASSERT_TRUE(eventually(Milliseconds(20'000), [&] {
    const auto executors = list("executors");
    return executors && executors->size() == 2;
  }));
  service_->signal(SIGKILL);
  client.say("go on");
  const Ended ended = client.wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  for (const std::string text :
       {"waiting: ", " can never be scheduled: no job runs its program ", "running: ", "cancelled",
        "later: find program 'neutral_service': no running job"})
    EXPECT_NE(ended.out.find(text), std::string::npos) << text << "\n" << ended.out;
}

// mobula::function: values, refs, streams, and errors of calls with the caller's types.
TEST_F(NeutralCalls, CallersTypes) {
  const Ended ended = run_program("typed_client", {"neutral_service"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out.find("DIFFERENT"), std::string::npos) << ended.out;
  int equal = 0;
  for (auto at = ended.out.find(": equal\n"); at != std::string::npos;
       at = ended.out.find(": equal\n", at + 1))
    ++equal;
  EXPECT_EQ(equal, 26) << ended.out;
  for (const std::string text :
       {"stream: 0 1 2 3 end\n",
        "same_int: reading a neutral value as int8: 300 is not a whole number from -128 to 127",
        "argument 1 of same_struct(struct Outer) -> struct Outer from program typed_client to "
        "program",
        "did you mean same_int?", "no luck",
        "nothing: reading a neutral value as int32: null is not",
        "no program: submit function 'pid' of program '': one of them has no name"})
    EXPECT_NE(ended.out.find(text), std::string::npos) << text << "\n---\n" << ended.out;
}

// Jobs of one name with different programs.
TEST_F(NeutralCalls, SeveralPrograms_NameIsRejected) {
  Process other = start("neutral_client", {"serve", "neutral_service"});
  ASSERT_TRUE(other.prints("serving")) << other.err();
  const std::string out = client("name");
  EXPECT_NE(out.find("find program 'neutral_service': jobs with this name run several programs: "),
            std::string::npos)
      << out;
  other.say("end");
  EXPECT_EQ(other.wait().code, 0);
  EXPECT_EQ(client("name"), "name: no error\n");
}

}  // namespace
}  // namespace mobula::e2e
