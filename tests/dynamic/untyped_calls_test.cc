// Untyped calls of a small host in C++, on one cluster of this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "contract/local_cluster.h"
#include "dynamic/cpp_host.h"

namespace mobula::dynamic {

std::string& address_of_cluster() {
  static std::string address;
  return address;
}

namespace {

using mobula::testing::becomes_true;
using ::testing::HasSubstr;

AnyRef run(const std::string& name, const TaskOptions& options = {}) {
  return submit({.name = name}, options, {})[0];
}

AnyActor counter(const std::string& count, const ActorOptions& options = {}) {
  const Text start(count);
  const Argument argument = start.argument();
  return create({.name = "Counter", .class_name = "Counter"}, options, {&argument, 1});
}

std::string add(const AnyActor& actor) {
  return text_of(call(actor, {.name = "Counter.add"}, {}, {})[0]);
}

int typed_square(int x) { return x * x; }
class TypedCounter {
 public:
  int add() { return ++count_; }

 private:
  int count_ = 0;
};

TEST(Untyped, AnyNumberOfArguments) {
  const AnyRef large = put(Text(std::string(200'000, 'x')).value());
  for (const int count : {0, 1, 9, 40}) {
    std::vector<std::unique_ptr<Text>> values;
    std::vector<AnyRef> refs;
    std::vector<Argument> arguments;
    std::string expected;
    refs.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      values.push_back(std::make_unique<Text>(std::to_string(i) + ","));
      expected += std::to_string(i) + ",";
      if (i % 3 == 1) {
        refs.push_back(put(values.back()->value()));
        arguments.push_back({.ref = &refs.back()});
      } else {
        arguments.push_back(values.back()->argument());
      }
    }
    EXPECT_EQ(text_of(submit({.name = "concat"}, {}, arguments)[0]), expected);
  }
  const Argument of_large{.ref = &large};
  EXPECT_EQ(text_of(submit({.name = "concat"}, {}, {&of_large, 1})[0]).size(), 200'000u);
}

TEST(Untyped, AnyNumberOfResults) {
  const auto actor = counter("0");
  for (const int count : {1, 2, 10, 0, 3}) {
    for (const auto& refs : {submit({.name = "enumerate"}, {}, {}, {.count = count}),
                             call(actor, {.name = "enumerate"}, {}, {}, {.count = count})}) {
      ASSERT_EQ(refs.size(), static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < refs.size(); ++i)
        EXPECT_EQ(text_of(refs[i]), "enumerate " + std::to_string(i));
    }
  }
  EXPECT_EQ(wait(submit({.name = "enumerate"}, {}, {}, {.count = 4}),
                 {.num_returns = 4, .timeout = std::chrono::seconds(30)}),
            (std::vector<std::size_t>{0, 1, 2, 3}));
}

// The items of a stream, or the message of the error that ended it as the last one.
std::vector<std::string> items_of(AnyRef position, std::size_t most = 1'000) {
  std::vector<std::string> items;
  while (items.size() < most) {
    const auto step = next(position, {.timeout = std::chrono::seconds(30)});
    if (const auto* error = std::get_if<detail::ErrorRecord>(&step)) {
      items.push_back(error->message);
      break;
    }
    const auto& at = std::get<StreamItem>(step);
    if (at.item.empty()) break;
    items.push_back(text_of(at.item));
    position = at.next;
  }
  return items;
}

TEST(Untyped, StreamsAnyNumberOfItems) {
  using ::testing::ElementsAre;
  const auto actor = counter("0");
  const auto stream = [&](const std::string& count, bool fails, bool by_actor) {
    const Text first(count), second("fails");
    const Argument arguments[] = {first.argument(), second.argument()};
    const std::span<const Argument> given(arguments, fails ? 2 : 1);
    const Returns returns{.streaming = true};
    return by_actor
               ? call(actor, {.name = "Counter.stream"}, {.stream_window = 2}, given, returns)[0]
               : submit({.name = "stream"}, {.stream_window = 2}, given, returns)[0];
  };
  for (const bool by_actor : {false, true}) {
    EXPECT_THAT(items_of(stream("0", false, by_actor)), ElementsAre());
    EXPECT_EQ(items_of(stream("300", false, by_actor)).size(), 300u);
    const AnyRef failing = stream("2", true, by_actor);
    EXPECT_THAT(items_of(failing), ElementsAre("item 0", "item 1", "no more items"));
    EXPECT_THAT(items_of(failing), ElementsAre("item 0", "item 1", "no more items")) << "again";
    // The producer waits for its consumer until it is cancelled.
    const AnyRef endless = stream("1000000000", false, by_actor);
    EXPECT_EQ(items_of(endless, 3).back(), "item 2");
    cancel(endless);
    EXPECT_NE(items_of(endless).back().find("cancelled"), std::string::npos);
  }
  EXPECT_EQ(add(actor), "1");
  EXPECT_THAT(items_of(submit({.name = "stream later"}, {}, {}, {.streaming = true})[0]),
              ElementsAre("0", "1", "2"));
  EXPECT_THROW(submit({.name = "stream"}, {}, {}, {.count = 2, .streaming = true}),
               InvalidRequestError);
}

TEST(Untyped, PayloadContainsRefsHandlesAndTensors) {
  const auto actor = counter("10");
  const Text value("", {put(Text("a").value()), put(Text("b").value())}, {actor},
                   {Tensor::from({2.5F})});
  const Argument argument = value.argument();
  EXPECT_EQ(text_of(submit({.name = "inner"}, {}, {&argument, 1})[0]), "ab112.5");

  for (const Transport transport : {Transport::object_store, Transport::automatic}) {
    const auto refs = call(actor, {.name = "nested result"}, {.tensor_transport = transport}, {});
    const auto fetched = get(refs, {.timeout = std::chrono::seconds(30)});
    ASSERT_TRUE(std::holds_alternative<StoredPayload>(fetched[0]));
    const auto parts = std::get<StoredPayload>(fetched[0]).parts(format);
    ASSERT_EQ(parts.tensors.size(), 1u);
    EXPECT_EQ(parts.tensors[0].size(), 100'000);
    EXPECT_EQ(text_of(parts.refs[0]), "inside");
  }
}

TEST(Untyped, BuffersAreAlignedForReaders) {
  for (const std::size_t size : {100u, 5'000u, 1'000'000u}) {
    const std::vector<std::byte> bytes(size, std::byte{1});
    const Payload value(format, {.buffers = {std::span<const std::byte>(bytes)}});
    const Argument argument{.value = &value};
    EXPECT_EQ(text_of(submit({.name = "buffer"}, {}, {&argument, 1})[0]),
              "aligned " + std::to_string(size));
  }
}

TEST(Untyped, FailuresBecomeErrors) {
  const auto failed = error_of(run("fail"));
  EXPECT_EQ(failed.kind, detail::ErrorKind::task);
  EXPECT_EQ(failed.message, "no luck");
  EXPECT_EQ(failed.remote_type, "test.Failure");
  EXPECT_EQ(failed.task, "fail");
  EXPECT_EQ(error_of(run("throw")).message, "thrown by the host");
  EXPECT_THAT(error_of(run("drop")).message, HasSubstr("dropped the call of drop"));
  EXPECT_THAT(error_of(run("too few")).message, HasSubstr("too few without result 0"));
  EXPECT_EQ(text_of(run("twice")), "the first");
  EXPECT_EQ(text_of(run("give twice")), "a");
  EXPECT_EQ(error_of(run("unknown")).message, "no function unknown");
}

TEST(Untyped, CompletesOnAnotherThread) { EXPECT_EQ(text_of(run("later")), "from another thread"); }

AnyRef hold(const AnyActor& actor, int results = 1) {
  return call(actor, {.name = "Holder.hold"}, {}, {}, {.count = results}).back();
}
std::string holder(const AnyActor& actor, const std::string& method) {
  return text_of(call(actor, {.name = "Holder." + method}, {}, {})[0]);
}
AnyActor make_holder() {
  return create({.name = "Holder", .class_name = "Holder", .asynchronous = true},
                {.max_concurrency = 2000}, {});
}

TEST(Untyped, ThousandCallsInFlightOnOneThread) {
  const auto actor = make_holder();
  const std::string before = holder(actor, "count");
  std::vector<AnyRef> refs;
  for (int i = 0; i < 1000; ++i) refs.push_back(hold(actor, 1 + i % 2));
  // No thread more than with one call.
  EXPECT_EQ(holder(actor, "count"), "1000" + before.substr(1));
  EXPECT_TRUE(wait(refs, {.timeout = std::chrono::seconds(0)}).empty());
  EXPECT_EQ(holder(actor, "release"), "1000");
  std::set<std::string> ids;
  for (const AnyRef& each : refs) ids.insert(text_of(each));
  EXPECT_EQ(ids.size(), 1000u);
}

TEST(Untyped, DroppedAndCancelledCallsEnd) {
  const auto actor = make_holder();
  const AnyRef dropped = hold(actor), cancelled = hold(actor);
  EXPECT_EQ(holder(actor, "answer cancelled"), "0");
  cancel(cancelled);
  EXPECT_TRUE(becomes_true([&] { return holder(actor, "answer cancelled") == "1"; }));
  EXPECT_EQ(error_of(cancelled).kind, detail::ErrorKind::task_cancelled);
  EXPECT_EQ(holder(actor, "drop"), "dropped");
  EXPECT_THAT(error_of(dropped).message, HasSubstr("dropped the call of Holder.hold"));
  const AnyRef lost = hold(actor);
  kill(actor);
  EXPECT_EQ(error_of(lost).kind, detail::ErrorKind::actor_died);
}

TEST(Untyped, HostDecidesAboutRetries) {
  EXPECT_EQ(text_of(run("third attempt", {.retry_exceptions = true})), "attempt 2");
  EXPECT_EQ(error_of(run("final", {.retry_exceptions = true})).message, "attempt 0");
  EXPECT_EQ(error_of(run("third attempt")).message, "attempt 0");
}

TEST(Untyped, CancelReachesHostOnce) {
  const auto ref = run("until cancelled");
  EXPECT_TRUE(wait({&ref, 1}, {.timeout = std::chrono::milliseconds(50)}).empty());
  cancel(ref);
  cancel(ref);
  EXPECT_EQ(error_of(ref).kind, detail::ErrorKind::task_cancelled);
  const auto actor = counter("0");
  const auto running = call(actor, {.name = "until cancelled"}, {}, {})[0];
  EXPECT_TRUE(wait({&running, 1}, {.timeout = std::chrono::milliseconds(50)}).empty());
  cancel(running);
  EXPECT_EQ(error_of(running).kind, detail::ErrorKind::task_cancelled);
  EXPECT_EQ(add(actor), "1");
}

// By hand: MOBULA_TEST_CANCELS=10000.
TEST(Untyped, CancelRacesWithCompletion) {
  const char* given = std::getenv("MOBULA_TEST_CANCELS");
  const int count = given == nullptr ? 2'000 : std::stoi(given);
  std::vector<AnyRef> refs;
  for (int i = 0; i < count; ++i) {
    refs.push_back(run("concat", {.num_cpus = 0.01}));
    if (i >= 3) cancel(refs[refs.size() - 3]);
  }
  int completed = 0, cancelled = 0;
  for (const AnyRef& each : refs) {
    const auto error = error_of(each);
    ++(error.message.empty() ? completed : cancelled);
    EXPECT_TRUE(error.kind == detail::ErrorKind::task_cancelled || error.message.empty())
        << error.message;
  }
  std::cout << completed << " calls completed, " << cancelled << " were cancelled\n";
  EXPECT_EQ(completed + cancelled, count);
}

// The call is cancelled while `give` waits for a consumer of its stream, and while `give` stores
// 200 large results.
TEST(Untyped, CancelDuringGive) {
  for (int i = 0; i < 20; ++i) {
    const Text endless("1000000000");
    const Argument argument[] = {endless.argument()};
    const AnyRef stream =
        submit({.name = "stream"}, {.stream_window = 1}, argument, {.streaming = true})[0];
    // The first item is there, and the second one waits.
    ASSERT_EQ(items_of(stream, 1).front(), "item 0");
    cancel(stream);
    EXPECT_THAT(items_of(stream).back(), HasSubstr("cancelled"));
  }
  const auto actor = counter("0", {.max_concurrency = 2});
  const auto gives = [&] { return text_of(call(actor, {.name = "Counter.gives"}, {}, {})[0]); };
  int completed = 0, cancelled = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string before = gives();
    const auto refs = call(actor, {.name = "Counter.give large"}, {}, {}, {.count = 200});
    ASSERT_TRUE(becomes_true([&] { return gives() != before; }));
    cancel(refs.front());
    const auto error = error_of(refs.front());
    ++(error.message.empty() ? completed : cancelled);
    for (const AnyRef& each : refs) {
      const auto other = error_of(each);
      EXPECT_EQ(other.message.empty(), error.message.empty()) << other.message;
      EXPECT_TRUE(other.message.empty() || other.kind == detail::ErrorKind::task_cancelled)
          << other.message;
    }
  }
  std::cout << completed << " calls completed, " << cancelled << " were cancelled\n";
  EXPECT_EQ(add(actor), "1");
}

TEST(Untyped, ActorsByName) {
  const auto actor = counter("5", {.name = "counting"});
  EXPECT_EQ(add(actor), "6");
  EXPECT_EQ(add(get_actor("counting", "", "Counter")), "7");
  EXPECT_THROW(get_actor("counting", "", "Other"), InvalidRequestError);
  EXPECT_THROW(get_actor("nothing", "", "Counter"), NotFoundError);
  EXPECT_EQ(text_of(call(actor, {.name = "Counter.describe"}, {.name = "shown"}, {})[0]),
            "Counter.describe of Counter (method)");
  kill(actor);
  EXPECT_EQ(error_of(call(actor, {.name = "Counter.add"}, {}, {})[0]).kind,
            detail::ErrorKind::actor_died);
  const auto broken = counter("-1");
  EXPECT_THAT(error_of(call(broken, {.name = "Counter.add"}, {}, {})[0]).cause + " " +
                  error_of(call(broken, {.name = "Counter.add"}, {}, {})[0]).message,
              HasSubstr("a negative count"));
  const auto leaving = counter("1");
  EXPECT_EQ(error_of(call(leaving, {.name = "Counter.exit"}, {}, {})[0]).kind,
            detail::ErrorKind::actor_died);
}

TEST(Untyped, CallNamesLanguageAndProgramOfCaller) {
  EXPECT_EQ(text_of(run("caller")), "test 1.0 in untyped_calls_test");
  EXPECT_EQ(text_of(submit({.name = "caller", .program = "untyped"}, {}, {})[0]),
            "test 1.0 in untyped_calls_test by program");
  EXPECT_EQ(text_of(call(counter("1"), {.name = "Counter.caller"}, {}, {})[0]),
            "test 1.0 in untyped_calls_test");
}

TEST(Untyped, TypedAndUntypedCallsShareAProgram) {
  EXPECT_EQ(mobula::get(mobula::task<typed_square>.remote(3), std::chrono::seconds(30)), 9);
  const auto typed = mobula::actor<TypedCounter>.remote();
  EXPECT_THAT(error_of(call(typed, {.name = "Counter.add"}, {}, {})[0]).message,
              HasSubstr("has no method Counter.add; it has: nothing"));
  EXPECT_THROW(mobula::get(ObjectRef<int>(run("concat").anchor()), std::chrono::seconds(30)),
               SerializationError);
  const auto five = mobula::put(5);
  const Argument argument{.ref = nullptr};
  EXPECT_THROW(submit({.name = "concat"}, {}, {&argument, 1}), InvalidRequestError);
  const AnyRef any(five);
  const Argument of_typed{.ref = &any};
  EXPECT_THAT(error_of(submit({.name = "concat"}, {}, {&of_typed, 1})[0]).message,
              HasSubstr("in format \"test/1\": it was written in format \"c++\""));
}

TEST(Untyped, HooksRunInForkServerAndExecutor) {
  const std::string counts = text_of(run("hooks"));
  EXPECT_THAT(counts, HasSubstr(" child 1 assigned 1 slot known"));
  // The executor is a copy made between before_fork and after_fork_in_parent.
  const int before = std::stoi(counts.substr(counts.find("before ") + 7));
  const int parent = std::stoi(counts.substr(counts.find("parent ") + 7));
  EXPECT_EQ(parent, before - 1) << counts;
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* const pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> part;
  for (std::size_t size = 0; (size = std::fread(part.data(), 1, part.size(), pipe)) > 0;)
    text.append(part.data(), size);
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return text;
}

// The directory of this program's cluster, which has its key.
std::filesystem::path directory_of_cluster() {
  const std::string address = address_of_cluster();
  const std::string port = address.substr(address.rfind(':') + 1);
  const auto below =
      std::filesystem::temp_directory_path() / ("mobula-" + std::to_string(::getuid()));
  for (const auto& each : std::filesystem::directory_iterator(below)) {
    std::string found;
    std::ifstream(each.path() / "local/head/port") >> found;
    if (found == port) return each.path();
  }
  ADD_FAILURE() << "no cluster with port " << port << " below " << below;
  return {};
}

// Names of calls appear where those of typed calls do.
TEST(Untyped, ToolsShowGivenNames) {
  const std::string tool = MOBULA_BINARY_DIR "/bin/mobula";
  const std::string key = (directory_of_cluster() / "local/local.key").string();
  const auto shows = [&](const std::string& arguments, const std::string& text) {
    std::string seen;
    EXPECT_TRUE(becomes_true([&] {
      seen = output_of(tool + " " + arguments + " --address " + address_of_cluster() + " --key " +
                       key);
      return seen.find(text) != std::string::npos;
    })) << arguments
        << " lacks " << text << ": " << seen;
  };
  const auto actor = counter("1", {.name = "shown"});
  const auto running = call(actor, {.name = "until cancelled"}, {}, {})[0];
  const auto waiting = submit({.name = "wants much"}, {.num_cpus = 4000}, {})[0];
  shows("list actors -o json", "\"Counter\"");
  shows("list tasks -o json", "\"until cancelled\"");
  shows("list jobs -o json", "\"test 1.0\"");
  shows("status", "1 test 1.0");
  shows("list tasks -o json", "\"wants much\"");
  const std::string access = " --address " + address_of_cluster() + " --key " + key;
  // The exit code of a task that can never run is 6.
  const auto explained = [&](const std::string& task) {
    return output_of("{ " + tool + " explain " + task + access + " 2>&1 || true; }");
  };
  for (const auto& each :
       nlohmann::json::parse(output_of(tool + " list tasks -o json" + access)).at("items")) {
    const std::string name = each.at("name");
    if (name == "wants much" || name == "until cancelled")
      EXPECT_THAT(explained(std::string(each.at("task_id"))), HasSubstr(name));
  }
  cancel(running);
  cancel(waiting);
  EXPECT_EQ(error_of(running).kind, detail::ErrorKind::task_cancelled);
  EXPECT_EQ(text_of(run("concat", {.name = "my display name"})), "");
  shows("timeline --output -", "my display name");
}

TEST(Untyped, FarewellRunsOnMainThread) {
  const std::string path = ::testing::TempDir() + "/farewell-" + std::to_string(::getpid());
  std::filesystem::remove(path);
  {
    const auto actor = counter("3", {.env = {{"DYNAMIC_TEST_FAREWELL", path}}});
    EXPECT_EQ(add(actor), "4");
  }
  EXPECT_TRUE(becomes_true([&] {
    std::ifstream file(path);
    std::string line;
    return std::getline(file, line) && line == "main thread";
  }));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace mobula::dynamic

int main(int argc, char** argv) {
  mobula::dynamic::set_host(mobula::dynamic::cpp_host());
  const auto cluster = mobula::init(argc, argv, {.num_cpus = 4, .job_name = "untyped"});
  mobula::dynamic::address_of_cluster() = cluster.address();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
