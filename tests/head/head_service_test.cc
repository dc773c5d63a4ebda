// Tests HeadService over a real bus, as seen by agents and tools.
#include "head/head_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "head/head_keys.h"
#include "head/head_main.h"
#include "head/scratch_directory.h"
#include "protocol/codec/messages.h"

namespace mobula::internal::head {
namespace {

using ::testing::HasSubstr;

// A bus that connects to a head and stores received messages.
struct Caller {
  Caller(EventLoop& on, const CurveKeys& keys, const std::string& address,
         const std::string& server_key)
      : loop(on) {
    BusOptions options;
    options.keys = keys;
    options.allow = &nobody;
    BusCallbacks callbacks;
    callbacks.on_message = [this](PeerHandle, const PeerOrigin&, std::span<const std::byte> bytes) {
      received.emplace_back(bytes.begin(), bytes.end());
    };
    callbacks.on_gone = [this](PeerHandle, const Failure& why) { gone = why; };
    bus = Bus::create(loop, std::move(options), std::move(callbacks)).value();
    head = bus->connect(address, server_key).value();
  }
  void say(const Bytes& bytes) { EXPECT_TRUE(bus->send(head, bytes).ok()); }
  template <class Message>
  std::optional<Message> answer() const {
    for (const auto& bytes : received) {
      if (auto message = decode<Message>(bytes)) return *message;
    }
    return std::nullopt;
  }

  EventLoop& loop;
  AllowTable nobody;
  std::unique_ptr<Bus> bus;
  PeerHandle head;
  std::vector<Bytes> received;
  std::optional<Failure> gone;
};

RegisterRequest registration() {
  RegisterRequest message;
  message.address.node = NodeId::random();
  message.address.incarnation = ProcessId::random();
  message.address.control = "127.0.0.1:1";
  message.address.bulk = "127.0.0.1:2";
  message.address.public_key = CurveKeys::generate().value().public_key;
  message.delegated_key = SigningKeys::generate().public_key;
  message.host = "somewhere";
  return message;
}

ToolRequest request(const std::string& verb, const std::string& kind = {}) {
  ToolRequest message;
  message.request = 5;
  message.verb = verb;
  message.kind = kind;
  return message;
}

class HeadServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(make_private_dir(directory_ / "head").ok());
    keys_ = HeadKeys::load_or_make(directory_.path(), "test").value();
    ASSERT_TRUE(keys_.admit(table_).ok());
    open();
  }

  void open() {
    HeadServiceOptions options;
    options.keys = keys_.curve;
    options.allow = &table_;
    options.signing = keys_.signing;
    options.journal_path = directory_ / "head/journal.sqlite";
    options.packages_dir = directory_ / "head/job-files";
    options.core.settings.cluster_name = "test";
    HeadServiceCallbacks callbacks;
    callbacks.on_serving = [this] { serving_ = true; };
    service_ = HeadService::create(*loop_, std::move(options), std::move(callbacks)).value();
    address_ = service_->bind("127.0.0.1:0").value();
    ASSERT_TRUE(service_->start().ok());
    ASSERT_TRUE(until([this] { return serving_; }));
  }

  Caller caller(const KeyFile& key) {
    return Caller(*loop_, CurveKeys{key.public_key, key.secret_key}, address_,
                  keys_.curve.public_key);
  }
  bool until(const std::function<bool()>& condition) {
    const Time deadline = monotonic_now() + 10s;
    while (!condition() && monotonic_now() < deadline) loop_->turn(20ms);
    return condition();
  }

  const ScratchDirectory directory_;
  AllowTable table_;
  HeadKeys keys_;
  std::unique_ptr<EventLoop> loop_ = EventLoop::create().value();
  bool serving_ = false;
  std::string address_;
  std::unique_ptr<HeadService> service_;
};

TEST_F(HeadServiceTest, AdmitsAgentWithSignedTicket) {
  Caller agent = caller(keys_.join);
  const RegisterRequest message = registration();
  agent.say(encode(AgentToHead(message)));
  ASSERT_TRUE(until([&] { return !agent.received.empty(); }));
  const auto answer = agent.answer<HeadToAgent>();
  ASSERT_TRUE(answer.has_value());
  const auto* registered = std::get_if<RegisterReply>(&*answer);
  ASSERT_NE(registered, nullptr);
  EXPECT_EQ(registered->head_epoch, 1u);
  EXPECT_EQ(registered->head_signing_key, keys_.signing.public_key);
  const auto ticket =
      check_ticket(registered->ticket, keys_.signing.public_key, wall_clock_ms(), {});
  ASSERT_TRUE(ticket.ok());
  EXPECT_EQ(ticket->principal.role, Role::agent);
  EXPECT_EQ(ticket->node, message.address.node);
  EXPECT_EQ(ticket->delegated_key, message.delegated_key);
}

TEST_F(HeadServiceTest, RejectsUnknownKey) {
  Caller stranger(*loop_, CurveKeys::generate().value(), address_, keys_.curve.public_key);
  stranger.say(encode(request("status")));
  ASSERT_TRUE(until([&] { return stranger.gone.has_value(); }));
  EXPECT_EQ(stranger.gone->code, ErrorCode::permission_denied);
  EXPECT_TRUE(stranger.received.empty());
}

TEST_F(HeadServiceTest, AcceptsOperatorReadsAndOrders) {
  Caller tool = caller(keys_.operator_key);
  tool.say(encode(request("status")));
  ASSERT_TRUE(until([&] { return !tool.received.empty(); }));
  const auto status = tool.answer<ToolReply>();
  ASSERT_TRUE(status.has_value());
  EXPECT_TRUE(status->ok);
  EXPECT_EQ(status->request, 5u);
  EXPECT_THAT(status->json, HasSubstr("\"cluster_name\":\"test\""));
  tool.received.clear();
  tool.say(encode(request("stop")));
  ASSERT_TRUE(until([&] { return !tool.received.empty(); }));
  EXPECT_TRUE(tool.answer<ToolReply>()->ok);
}

TEST_F(HeadServiceTest, JoinKey_ReadsButMayNotOrder) {
  Caller tool = caller(keys_.join);
  tool.say(encode(request("list", "nodes")));
  ASSERT_TRUE(until([&] { return !tool.received.empty(); }));
  EXPECT_TRUE(tool.answer<ToolReply>()->ok);
  tool.received.clear();
  tool.say(encode(request("stop")));
  ASSERT_TRUE(until([&] { return !tool.received.empty(); }));
  EXPECT_EQ(tool.answer<ToolReply>()->code, ErrorCode::permission_denied);
}

TEST_F(HeadServiceTest, RejectsOperatorRegisteringNode) {
  Caller tool = caller(keys_.operator_key);
  tool.say(encode(AgentToHead(registration())));
  ASSERT_TRUE(until([&] { return service_->counters().out_of_role == 1; }));
  EXPECT_TRUE(service_->core().view().nodes.empty());
}

TEST_F(HeadServiceTest, DropsGarbageAndKeepsConnection) {
  Caller agent = caller(keys_.join);
  agent.say(Bytes(1000, std::byte{0xc1}));
  agent.say(Bytes(1, std::byte{0x92}));
  ASSERT_TRUE(until([&] { return service_->counters().undecodable == 2; }));
  agent.say(encode(AgentToHead(registration())));
  ASSERT_TRUE(until([&] { return !agent.received.empty(); }));
  EXPECT_TRUE(agent.answer<HeadToAgent>().has_value());
}

TEST_F(HeadServiceTest, ExplainsRejectionOfOtherVersion) {
  Caller agent = caller(keys_.join);
  RegisterRequest message = registration();
  message.version = message.oldest = protocol_version + 41;
  agent.say(encode(AgentToHead(message)));
  ASSERT_TRUE(until([&] { return !agent.received.empty(); }));
  const auto answer = agent.answer<HeadToAgent>();
  ASSERT_TRUE(answer.has_value());
  const auto* refused = std::get_if<RegisterRejected>(&*answer);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->code, RefusalCode::version);
  EXPECT_THAT(refused->why, HasSubstr("version"));
}

TEST_F(HeadServiceTest, NextHead_AdvancesEpochAndKeepsKeys) {
  const std::string key = keys_.join.public_key;
  service_.reset();
  serving_ = false;
  keys_ = HeadKeys::load_or_make(directory_.path(), "test").value();
  EXPECT_EQ(keys_.join.public_key, key);
  open();
  EXPECT_EQ(service_->core().epoch(), 2u);
}

// Runs run_head in a child, because it needs a process for itself.
class HeadMainTest : public ::testing::Test {
 protected:
  HeadMainOptions options() {
    HeadMainOptions options;
    options.directory = directory_ / "test";
    options.cluster = "test";
    options.log_file = directory_ / "head.log";
    return options;
  }
  // Returns the exit code.
  static int run(const HeadMainOptions& options) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(run_head(options));
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  }

  const ScratchDirectory directory_;
};

TEST_F(HeadMainTest, Insecure_ListensOnlyLocally) {
  auto insecure = options();
  insecure.insecure = true;
  insecure.bind_host = "0.0.0.0";
  EXPECT_EQ(run(insecure), 2);
}

TEST_F(HeadMainTest, RejectsSecondHeadOfSameDirectory) {
  int ready[2];
  int life[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(life), 0);
  const pid_t first = ::fork();
  if (first == 0) {
    ::close(life[1]);
    auto own = options();
    own.life_fd = life[0];
    own.on_ready = [&](const HeadFile& file, const std::vector<std::string>&) {
      (void)!::write(ready[1], file.address.data(), file.address.size());
      ::close(ready[1]);
    };
    ::_exit(run_head(own));
  }
  ::close(ready[1]);
  ::close(life[0]);
  char address[64] = {};
  ASSERT_GT(::read(ready[0], address, sizeof address - 1), 0);
  EXPECT_EQ(load_head_file(directory_ / "test/head/head.json").value().address, address);
  EXPECT_EQ(run(options()), 1);

  ::close(life[1]);  // ends the life descriptor
  int status = 0;
  ::waitpid(first, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(load_head_file(directory_ / "test/head/head.json").ok());
  ::close(ready[0]);
}

}  // namespace
}  // namespace mobula::internal::head
