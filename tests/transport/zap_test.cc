#include "transport/bus/zap.h"

#include <gtest/gtest.h>

#include <string>

#include "transport/bus_fixture.h"
#include "transport/loop/loop_thread.h"

namespace mobula::internal {
namespace {

using ZapSelfTest = BusTest;
using ZapUnproven = UnprovenBusTest;

TEST(AllowTable, AdmitsByKeyAndCounts) {
  AllowTable table;
  const std::string key = CurveKeys::generate()->public_key;
  EXPECT_EQ(table.judge(key, "1.2.3.4"), "");
  EXPECT_EQ(table.counters().refused, 1u);
  EXPECT_EQ(table.counters().last_refused, key + " from 1.2.3.4");
  ASSERT_TRUE(table.allow(key, "agent 7"));
  EXPECT_EQ(table.judge(key, ""), "agent 7");
  EXPECT_EQ(table.counters().admitted, 1u);
  EXPECT_TRUE(table.remove(key));
  EXPECT_FALSE(table.remove(key));
}

TEST(AllowTable, AdmitsUnprovenKeysOnly) {
  AllowTable table(UnknownKeys::unproven);
  const std::string key = CurveKeys::generate()->public_key;
  EXPECT_EQ(table.judge(key, ""), unproven_user);
  EXPECT_EQ(table.judge("", ""), "") << "no key at all is never admitted";
  EXPECT_EQ(table.counters().unproven, 1u);
}

TEST(AllowTable, RejectsInvalidKeyOrUser) {
  AllowTable table;
  const std::string key = CurveKeys::generate()->public_key;
  EXPECT_FALSE(table.allow("short", "x").ok());
  EXPECT_FALSE(table.allow(key, "").ok());
  EXPECT_FALSE(table.allow(key, std::string(256, 'x')).ok());
  EXPECT_FALSE(table.allow(key, std::string("a\0b", 3)).ok());
}

TEST_F(ZapSelfTest, PassesForClosedBus) {
  open_server();
  const auto proved = self_test(table_, address_, server_keys_.public_key);
  EXPECT_TRUE(proved.ok()) << proved.error().text;
  EXPECT_EQ(table_.counters().refused, 1u);
  EXPECT_EQ(table_.counters().admitted, 1u);
}

TEST_F(ZapSelfTest, AdmittedKeyRejected_Fails) {
  open_server();
  AllowTable other;  // not the table of the bus
  const auto proved = self_test(other, address_, server_keys_.public_key, 500ms);
  EXPECT_EQ(proved.error().code, ErrorCode::unavailable);
}

TEST_F(ZapUnproven, BusAdmitsEveryKey_Fails) {
  open_server();
  AllowTable other;
  EXPECT_EQ(self_test(other, address_, server_keys_.public_key, 500ms).error().code,
            ErrorCode::permission_denied);
}

TEST_F(ZapUnproven, DetectsWhetherUnprovenPeersGetReplies) {
  const auto thread = LoopThread::start().value();
  std::unique_ptr<Bus> bus;
  bool replies = false;
  ASSERT_TRUE(thread->run([&] {
    bus = Bus::create(thread->loop(), server_options(),
                      {.on_message =
                           [&](PeerHandle from, const PeerOrigin& origin, auto bytes) {
                             EXPECT_EQ(origin.user_id, unproven_user);
                             if (!replies) return;
                             ASSERT_TRUE(bus->send(from, bytes));
                           }})
              .value();
    address_ = bus->bind("127.0.0.1:0").value();
  }));
  EXPECT_TRUE(self_test(table_, address_, server_keys_.public_key, 500ms).ok());
  ASSERT_TRUE(thread->run([&] { replies = true; }));
  EXPECT_EQ(self_test(table_, address_, server_keys_.public_key, 2s).error().code,
            ErrorCode::permission_denied);
  ASSERT_TRUE(thread->run([&] { bus.reset(); }));
}

TEST_F(ZapUnproven, ReportsProvenKeyOfPeers) {
  open_server();
  client_.open(*loop_, client_options());
  peer_ = client_.bus->connect(address_, server_keys_.public_key).value();
  ASSERT_TRUE(client_.bus->send(peer_, bytes_of("ticket")));
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
  EXPECT_EQ(server_.messages[0].origin.user_id, unproven_user);
  EXPECT_EQ(server_.messages[0].origin.public_key, client_keys_.public_key);
}

}  // namespace
}  // namespace mobula::internal
