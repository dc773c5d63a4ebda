// Tests tokens at HeadService over real connections: only a valid token admits its holder, and
// revocation ends all permissions of the holder at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "head/head_keys.h"
#include "head/head_service.h"
#include "head/scratch_directory.h"
#include "protocol/codec/messages.h"

namespace mobula::internal::head {
namespace {

using ::testing::HasSubstr;

class TokensTest : public ::testing::Test {
 protected:
  struct Holder {
    std::unique_ptr<Bus> bus;
    PeerHandle head{};
    std::optional<ToolReply> reply{};
    std::optional<RegisterRejected> refused{};
    std::optional<Failure> gone{};
  };

  void SetUp() override {
    ASSERT_TRUE(make_private_dir(directory_ / "head").ok());
    keys_ = HeadKeys::load_or_make(directory_.path(), "test").value();
    ASSERT_TRUE(keys_.admit(table_).ok());
    open();
  }

  // Starts a head on the same journal, as after a crash.
  void open() {
    service_.reset();
    serving_ = false;
    HeadServiceOptions options;
    options.keys = keys_.curve;
    options.allow = &table_;
    options.signing = keys_.signing;
    options.own_keys = {keys_.join.public_key, keys_.operator_key.public_key};
    options.journal_path = directory_ / "head/journal.sqlite";
    options.core.settings.cluster_name = "test";
    options.wall_clock = [this] { return wall_clock_ms() + slept_ms_; };
    HeadServiceCallbacks callbacks;
    callbacks.on_serving = [this] { serving_ = true; };
    service_ = HeadService::create(*loop_, std::move(options), std::move(callbacks)).value();
    address_ = service_->bind("127.0.0.1:0").value();
    ASSERT_TRUE(service_->start().ok());
    ASSERT_TRUE(until([this] { return serving_; }));
  }

  bool until(const std::function<bool()>& condition) {
    const Time deadline = monotonic_now() + 30s;
    while (!condition() && monotonic_now() < deadline) loop_->turn(20ms);
    return condition();
  }

  std::unique_ptr<Holder> connect(const CurveKeys& keys) {
    auto holder = std::make_unique<Holder>();
    BusOptions options;
    options.keys = keys;
    options.allow = &nobody_;
    BusCallbacks callbacks;
    callbacks.on_message = [holder = holder.get()](PeerHandle, const PeerOrigin&,
                                                   std::span<const std::byte> bytes) {
      if (auto reply = decode<ToolReply>(bytes)) holder->reply = std::move(*reply);
      if (auto message = decode<HeadToAgent>(bytes)) {
        if (auto* refused = std::get_if<RegisterRejected>(&*message))
          holder->refused = std::move(*refused);
      }
    };
    callbacks.on_gone = [holder = holder.get()](PeerHandle, const Failure& why) {
      holder->gone = why;
    };
    holder->bus = Bus::create(*loop_, std::move(options), std::move(callbacks)).value();
    holder->head = holder->bus->connect(address_, keys_.curve.public_key).value();
    return holder;
  }

  // Returns the reply. A rejected connection gives a reply that is not ok.
  ToolReply send_query(Holder& holder, const std::string& verb, const std::string& argument = {}) {
    ToolRequest request;
    request.request = ++queries_;
    request.verb = verb;
    request.argument = argument;
    holder.reply.reset();
    EXPECT_TRUE(holder.bus->send(holder.head, encode(request)).ok());
    EXPECT_TRUE(until([&] { return holder.reply.has_value() || holder.gone.has_value(); }));
    if (holder.reply) return *holder.reply;
    ToolReply none;
    none.ok = false;
    none.text = "gone";
    return none;
  }

  CurveKeys token(const std::string& role, const std::string& name, std::int64_t expires_ms = 0) {
    const auto pair = CurveKeys::generate().value();
    const auto owner = connect({keys_.operator_key.public_key, keys_.operator_key.secret_key});
    const auto made = send_query(*owner, "token_create",
                                 nlohmann::json{{"role", role},
                                                {"name", name},
                                                {"public_key", pair.public_key},
                                                {"expires_ms", expires_ms}}
                                     .dump());
    EXPECT_TRUE(made.ok) << made.text;
    return pair;
  }

  const ScratchDirectory directory_;
  AllowTable table_;
  AllowTable nobody_;
  HeadKeys keys_;
  std::unique_ptr<EventLoop> loop_ = EventLoop::create().value();
  bool serving_ = false;
  std::int64_t slept_ms_ = 0;  // sleep of the machine, which only the wall clock counts
  std::string address_;
  std::uint64_t queries_ = 0;
  std::unique_ptr<HeadService> service_;
};

TEST_F(TokensTest, ObserverToken_ReadsButCannotChange) {
  const auto eyes = connect(token("observer", "eyes"));
  EXPECT_TRUE(send_query(*eyes, "status").ok);
  const auto refused = send_query(*eyes, "stop");
  EXPECT_EQ(refused.code, ErrorCode::permission_denied);
  EXPECT_THAT(refused.text, HasSubstr("observer"));
}

TEST_F(TokensTest, ExpiredDuringSleep_RejectsNextRequest) {
  const auto eyes = connect(token("observer", "eyes", 60'000));
  ASSERT_TRUE(send_query(*eyes, "status").ok);
  slept_ms_ = 7 * 60'000;
  const auto refused = send_query(*eyes, "status");
  EXPECT_EQ(refused.code, ErrorCode::permission_denied);
  EXPECT_THAT(refused.text, HasSubstr("expired at"));
  EXPECT_THAT(refused.text, HasSubstr("the head's clock says"));
  slept_ms_ = -7 * 60'000;
  EXPECT_THAT(send_query(*eyes, "status").text, HasSubstr("is not valid yet"));
}

TEST_F(TokensTest, TokenRevoked_ExistingConnectionsRejected) {
  const auto pair = token("driver", "wheel");
  const auto wheel = connect(pair);
  ASSERT_TRUE(send_query(*wheel, "status").ok);
  const auto owner = connect({keys_.operator_key.public_key, keys_.operator_key.secret_key});
  ASSERT_TRUE(send_query(*owner, "token_revoke", "wheel").ok);
  const auto refused = send_query(*wheel, "status");
  EXPECT_FALSE(refused.ok);
  EXPECT_EQ(refused.code, ErrorCode::permission_denied);
  EXPECT_THAT(refused.text, HasSubstr("'wheel'"));
  const auto late = connect(pair);
  EXPECT_FALSE(send_query(*late, "status").ok);
}

TEST_F(TokensTest, JoinToken_MachineStaysAgentAfterRestart) {
  const auto ticket = token("agent", "hands");
  const auto own = CurveKeys::generate().value();
  const std::string details = nlohmann::json{{"public_key", own.public_key}, {"host", "h"}}.dump();
  EXPECT_EQ(send_query(*connect(ticket), "status").code, ErrorCode::permission_denied);
  EXPECT_FALSE(send_query(*connect(own), "status").ok);  // not admitted yet
  ASSERT_TRUE(send_query(*connect(ticket), "join", details).ok);
  EXPECT_TRUE(send_query(*connect(own), "status").ok);
  open();
  EXPECT_TRUE(send_query(*connect(own), "status").ok);
  const auto other =
      nlohmann::json{{"public_key", CurveKeys::generate()->public_key}, {"host", "g"}}.dump();
  EXPECT_THAT(send_query(*connect(ticket), "join", other).text, HasSubstr("was used by 'h'"));
  EXPECT_EQ(send_query(*connect(own), "submit", "{}").code, ErrorCode::permission_denied);
}

TEST_F(TokensTest, JoinWithClusterKey_KeepsClusterRole) {
  const auto ticket = token("agent", "hands");
  const auto details =
      nlohmann::json{{"public_key", keys_.operator_key.public_key}, {"host", "h"}}.dump();
  send_query(*connect(ticket), "join", details);
  const auto owner = connect({keys_.operator_key.public_key, keys_.operator_key.secret_key});
  EXPECT_TRUE(send_query(*owner, "token_list").ok);
  EXPECT_TRUE(send_query(*owner, "token_revoke", "hands").ok);
  EXPECT_TRUE(send_query(*owner, "token_list").ok);
}

TEST_F(TokensTest, RejectsNodeWithSlotsForDriverKey) {
  const auto wheel = connect(token("driver", "wheel"));
  RegisterRequest message;
  message.address.node = NodeId::random();
  message.address.incarnation = ProcessId::random();
  message.address.control = "127.0.0.1:1";
  message.role = Role::agent;
  EXPECT_TRUE(wheel->bus->send(wheel->head, encode(AgentToHead(message))).ok());
  ASSERT_TRUE(until([&] { return wheel->refused.has_value(); }));
  EXPECT_EQ(wheel->refused->code, RefusalCode::permission);
  EXPECT_TRUE(service_->core().view().nodes.empty());
}

}  // namespace
}  // namespace mobula::internal::head
