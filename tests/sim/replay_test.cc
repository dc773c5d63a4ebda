// Recordings of real cores replay to the same commands, any change is detected, and no recording
// contains a secret.
#include "sim/replay.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "client/core/client_core.h"
#include "client/executor/core/executor_core.h"
#include "head/core/head_core.h"
#include "head/core/records/rows.h"
#include "protocol/all_messages.h"
#include "protocol/filler.h"
#include "protocol/recording/recorder.h"
#include "worker/core/worker_core.h"

namespace mobula::internal::sim {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view hidden_text = "do not tell";
constexpr std::string_view users_value = "a value of the user";

class Replaying : public ::testing::Test {
 protected:
  Replaying() {
    std::string pattern = "/tmp/mobula-replay-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~Replaying() override {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }

  std::unique_ptr<Recorder> start(const std::string& core, Bytes options) {
    RecordingHeader header;
    header.core = header.role = core;
    header.incarnation = {0, ++files_};
    header.options = std::move(options);
    auto recorder = Recorder::start({directory_, 1u << 20}, std::move(header));
    EXPECT_TRUE(recorder.ok());
    path_ = (*recorder)->path();
    return std::move(*recorder);
  }
  std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  // Writes the same steps again, each changed by `change`.
  template <class Change>
  void rewrite(Change change) {
    auto reader = RecordingReader::open(path_);
    ASSERT_TRUE(reader.ok());
    Bytes bytes = recording_begin(reader->header());
    for (int number = 1;; ++number) {
      auto step = reader->next();
      ASSERT_TRUE(step.ok());
      if (!*step) break;
      change(number, **step);
      append_input(bytes, (*step)->at, (*step)->event);
      append_output(bytes, *(*step)->commands);
    }
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  void expect_same(std::uint64_t steps) {
    const auto result = replay(path_, nullptr);
    ASSERT_TRUE(result.ok()) << result.error().text;
    EXPECT_TRUE(result->same) << result->text;
    EXPECT_EQ(result->steps, steps);
  }
  void expect_nothing_secret() const {
    const std::string bytes = content();
    EXPECT_EQ(bytes.find(hidden_text), std::string::npos);
    EXPECT_EQ(bytes.find(users_value), std::string::npos);
  }

  // Records a driver that submits a task with an inline argument and gets a slot, in four steps.
  void record_client() {
    client::ClientOptions options;
    options.process = ProcessId::of(1);
    options.job = JobId::of(1);
    client::ClientCore core(options);
    auto recorder = start("client", CoreRecords<client::ClientCore>::encode_options(options));
    std::vector<client::Command> commands;
    const auto step = [&](client::Event event) {
      step_recorded(core, recorder.get(), now_, std::move(event), commands);
      now_ = now_ + 1ms;
    };
    StartJob job;
    job.job = JobId::of(1);
    job.env["PASSWORD"] = hidden_text;
    job.program.arguments = {"program", std::string(hidden_text)};
    step(client::Attached{NodeId::of(1), ProcessId::of(9), job});
    client::SubmitTask task;
    task.call.task = TaskId::of(2);
    task.call.form.edit().name = "square";
    task.call.arguments.edit().push_back({false, {}, payload_value()});
    task.demand_class.id = ClassId::of(5);
    task.demand_class.env["PASSWORD"] = hidden_text;
    step(task);
    SlotReady ready;
    ready.slot = SlotId::of(3);
    ready.demand_class = ClassId::of(5);
    ready.endpoint.process = ProcessId::of(20);
    step(client::ReceivedFromAgent{FromHead{ready}});
    step(client::Tick{});
  }

  static ValueRecord payload_value() {
    const auto bytes = std::as_bytes(std::span(users_value));
    ValueRecord record;
    record.bytes = Payload(Bytes(bytes.begin(), bytes.end()));
    record.size_bytes = static_cast<std::int64_t>(bytes.size());
    return record;
  }

  std::string directory_;
  std::string path_;
  std::uint64_t files_ = 0;
  Time now_ = Time::from_ns(77'000'000'000);
};

TEST_F(Replaying, RepeatsCommandsOfDriverCore) {
  record_client();
  expect_same(4);
  expect_nothing_secret();
  EXPECT_NE(content().find("square"), std::string::npos);
  EXPECT_EQ(replay_files({path_}, false), 0);
}

TEST_F(Replaying, RepeatsCommandsOfExecutorCore) {
  executor::ExecutorCore core;
  auto recorder = start(
      "executor", CoreRecords<executor::ExecutorCore>::encode_options(executor::ExecutorOptions{}));
  std::vector<executor::Command> commands;
  AssignExecutor assignment;
  assignment.process = ProcessId::of(20);
  assignment.lessee = ProcessId::of(1);
  assignment.ticket = hidden_text;
  step_recorded(core, recorder.get(), now_, executor::Event(executor::Assigned{assignment}),
                commands);
  executor::ReceivedFromCaller said;
  said.caller = ProcessId::of(1);
  said.frame.sequence = 1;
  PushCall push;
  push.number = 1;
  push.call.task = TaskId::of(2);
  push.call.arguments.edit().push_back({false, {}, payload_value()});
  said.frame.message = push;
  step_recorded(core, recorder.get(), now_ + 1ms, executor::Event(said), commands);
  ASSERT_FALSE(commands.empty());
  ASSERT_TRUE(std::holds_alternative<executor::RunCall>(commands.back()));
  // The shell gets the unscrubbed command: only the recording is scrubbed.
  EXPECT_EQ(std::get<executor::RunCall>(commands.back()).call, push.call);
  executor::CallFinished finished;
  finished.token = std::get<executor::RunCall>(commands.back()).token;
  finished.results = {payload_value()};
  step_recorded(core, recorder.get(), now_ + 2ms, executor::Event(finished), commands);
  recorder.reset();
  expect_same(3);
  expect_nothing_secret();
}

TEST_F(Replaying, RepeatsCommandsOfAgentCore) {
  worker::WorkerOptions options;
  options.store_bytes = 123u << 20;
  worker::WorkerCore core(options);
  auto recorder = start("agent", CoreRecords<worker::WorkerCore>::encode_options(options));
  std::vector<worker::Command> commands;
  const auto step = [&](worker::Event event) {
    step_recorded(core, recorder.get(), now_, std::move(event), commands);
    now_ = now_ + 300ms;
  };
  worker::Started started;
  started.address.node = NodeId::of(1);
  started.address.incarnation = ProcessId::of(9);
  step(started);
  step(worker::HeadLink{true});
  step(
      worker::BulkOffered{1, 10, std::string(hidden_text), std::string(hidden_text), std::nullopt});
  step(worker::ExecutorPrinted{SlotId::of(1), 1, {std::string(users_value)}});
  step(worker::Tick{});
  recorder.reset();
  ASSERT_FALSE(commands.empty());
  expect_same(5);
  expect_nothing_secret();
}

TEST_F(Replaying, RepeatsCommandsOfHeadCore) {
  head::HeadOptions options;
  options.settings.cluster_name = "recorded";
  head::HeadCore core(options);
  auto recorder = start("head", CoreRecords<head::HeadCore>::encode_options(options));
  std::vector<head::Command> commands;
  head::ActorRow actor;
  actor.spec.actor = ActorId::of(4);
  actor.spec.job = JobId::of(1);
  actor.spec.name = "kept";
  actor.spec.detached = true;
  actor.job_env["PASSWORD"] = hidden_text;
  actor.spec.constructor.arguments.edit().push_back({false, {}, payload_value()});
  head::Started started;
  started.epoch_id = {5, 6};
  started.rows.push_back({"actors", ActorId::of(4).hex(), encode(actor)});
  const char broken[] = "do not tell";
  started.rows.push_back(
      {"jobs", JobId::of(1).hex(),
       Bytes(std::as_bytes(std::span(broken)).begin(), std::as_bytes(std::span(broken)).end())});
  step_recorded(core, recorder.get(), now_, head::Event(started), commands);
  step_recorded(core, recorder.get(), now_ + 1ms, head::Event(head::Persisted{1}), commands);
  ToolRequest list{
      .version = protocol_version, .request = 1, .verb = "list", .kind = "actors", .argument = ""};
  step_recorded(
      core, recorder.get(), now_ + 2ms,
      head::Event(head::ReceivedFromTool{7, Principal{Role::operator_, "tool", {}}, list}),
      commands);
  recorder.reset();
  const auto* reply = std::get_if<head::ReplyToTool>(&commands.back());
  ASSERT_NE(reply, nullptr);
  EXPECT_NE(reply->reply.json.find("kept"), std::string::npos);
  expect_same(3);
  expect_nothing_secret();
}

TEST_F(Replaying, ShowsChangedCommand) {
  record_client();
  rewrite([](int number, RecordedStep& step) {
    if (number != 3) return;
    for (auto& each : *step.commands) {
      auto command = CoreRecords<client::ClientCore>::decode_command(each);
      ASSERT_TRUE(command.ok());
      auto* sent = std::get_if<client::SendToExecutor>(&*command);
      if (sent == nullptr) continue;
      sent->frame.sequence = 99;
      each = CoreRecords<client::ClientCore>::recorded({&*command, 1}, Scrubber(Hash128{})).front();
    }
  });
  const auto result = replay(path_, nullptr);
  ASSERT_TRUE(result.ok()) << result.error().text;
  EXPECT_FALSE(result->same);
  EXPECT_EQ(result->steps, 3u);
  for (const char* part : {"step 3 at 0.002000 s", "SlotReady", "sequence:99", "sequence:1 "}) {
    EXPECT_NE(result->text.find(part), std::string::npos) << part << " in " << result->text;
  }
  EXPECT_EQ(replay_files({path_}, false), 1);
}

TEST_F(Replaying, DetectsMissingAndExtraCommands) {
  record_client();
  rewrite([](int number, RecordedStep& step) {
    if (number == 4) step.commands->push_back(encode(client::Command(client::Warn{"invented"})));
  });
  auto result = replay(path_, nullptr);
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->same);
  EXPECT_NE(result->text.find("now      nothing more"), std::string::npos) << result->text;
  record_client();
  rewrite([](int number, RecordedStep& step) {
    if (number == 2) step.commands->pop_back();
  });
  result = replay(path_, nullptr);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->steps, 2u);
  EXPECT_NE(result->text.find("recorded nothing more"), std::string::npos) << result->text;
}

TEST_F(Replaying, RejectsUnknownEventKind) {
  record_client();
  rewrite([](int number, RecordedStep& step) {
    if (number == 2) step.event[1] = std::byte{0x7f};  // number of the alternative
  });
  const auto result = replay(path_, nullptr);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::corrupt);
  EXPECT_NE(result.error().text.find("step 2"), std::string::npos) << result.error().text;
  EXPECT_NE(result.error().text.find("does not know"), std::string::npos) << result.error().text;
  EXPECT_EQ(replay_files({path_}, false), 1);
}

TEST_F(Replaying, NamesUnknownCore) {
  start("oracle", {});
  const auto result = replay(path_, nullptr);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().text.find("oracle"), std::string::npos);
}

TEST_F(Replaying, FileCut_ReplaysUpToCut) {
  record_client();
  fs::resize_file(path_, fs::file_size(path_) - 3);
  const auto result = replay(path_, nullptr);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->same);
  EXPECT_EQ(result->steps, 4u);
  EXPECT_NE(result->text.find("cut off"), std::string::npos) << result->text;
}

// ---- scrubbing ---------------------------------------------------------------------------------

// Expects that every field with a secret name or type is hidden, at any depth. This includes fields
// that are added to a message later.
struct Inspector {
  std::string where;

  template <class T>
  void inspect(const T& value) {
    if constexpr (HasFields<T>) {
      for_each_field(value,
                     [&](std::string_view name, const auto& member) { inspect(name, member); });
    }
  }
  void inspect(const Payload& payload) {
    EXPECT_TRUE(payload.empty() || (payload.size() == 1 && payload.bytes()[0] == std::byte{0}))
        << where;
    ++seen;
  }
  template <class T, class Allocator>
  void inspect(const std::vector<T, Allocator>& values) {
    for (const auto& each : values) inspect(each);
  }
  template <class T>
  void inspect(const std::optional<T>& value) {
    if (value) inspect(*value);
  }
  template <class T>
  void inspect(const CopyOnWrite<T>& value) {
    inspect(*value);
  }
  template <class... T>
  void inspect(const std::variant<T...>& value) {
    std::visit([&](const auto& each) { inspect(each); }, value);
  }
  void inspect(std::string_view name, const std::string& text) {
    const bool is_secret = name.find("secret") != name.npos || name.find("token") != name.npos ||
                           name.find("ticket") != name.npos || name.find("password") != name.npos ||
                           name == "key";
    if (is_secret) expect_hidden(name, text);
  }
  void inspect(std::string_view name, const std::map<std::string, std::string>& values) {
    if (name.find("env") == name.npos) return;
    for (const auto& [variable, text] : values) expect_hidden(name, text);
  }
  template <class T>
  void inspect(std::string_view, const T& value) {
    inspect(value);
  }
  void expect_hidden(std::string_view name, const std::string& text) {
    EXPECT_TRUE(text.empty() || text.starts_with("hidden:"))
        << where << " " << name << ": " << text;
    ++seen;
  }
  int seen = 0;
};

// Inspects every alternative, including the first. Nested variants are inspected separately.
template <class Choice>
int inspect_all() {
  const Scrubber scrubber(random_bits());
  Inspector inspector;
  test::for_each_alternative<Choice>([&](auto, auto alternative) {
    inspector.where = test::type_name<decltype(alternative)>();
    scrubber.scrub(alternative);
    inspector.inspect(alternative);
  });
  return inspector.seen;
}

TEST(Scrubbed, RemovesEverySecretAndPayload) {
  EXPECT_GT(inspect_all<client::Event>(), 0);
  EXPECT_GT(inspect_all<client::Command>(), 0);
  EXPECT_GT(inspect_all<executor::Event>(), 0);
  EXPECT_GT(inspect_all<executor::Command>(), 0);
  EXPECT_GT(inspect_all<worker::Event>(), 0);
  EXPECT_GT(inspect_all<worker::Command>(), 0);
  EXPECT_GT(inspect_all<ProcessToHead>(), 0);
  EXPECT_GT(inspect_all<HeadMessage>(), 0);
  EXPECT_GT(inspect_all<HeadToAgent>(), 0);
  EXPECT_GT(inspect_all<AgentToProcess>(), 0);
  EXPECT_GT(inspect_all<PeerMessage>(), 0);
  EXPECT_GT(inspect_all<CallerMessage>(), 0);
  EXPECT_GT(inspect_all<ExecutorMessage>(), 0);
}

TEST(Scrubbed, RepeatsStablyAndKeepsEquality) {
  const Scrubber scrubber(random_bits());
  std::string a(hidden_text), b(hidden_text), c("another"), none;
  for (auto* text : {&a, &b, &c, &none}) scrubber.hide(*text);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_EQ(none, "");
  std::string again = a;
  Scrubber(random_bits()).hide(again);
  EXPECT_EQ(again, a);
}

}  // namespace
}  // namespace mobula::internal::sim
