#include "transport/net/address.h"

#include <gtest/gtest.h>

#include <string>

#include "transport/loop_fixture.h"
#include "transport/net/name_resolver.h"

namespace mobula::internal {
namespace {

TEST(Address, ReadsEveryForm) {
  const auto v4 = Address::parse("10.1.2.3:4567").value();
  EXPECT_EQ(v4.host(), "10.1.2.3");
  EXPECT_EQ(v4.port(), 4567);
  EXPECT_EQ(v4.numeric()->text(), "10.1.2.3:4567");
  const auto v6 = Address::parse("[::1]:0").value();
  EXPECT_EQ(v6.host(), "::1");
  EXPECT_EQ(v6.text(), "[::1]:0");
  EXPECT_TRUE(v6.numeric()->loopback());
  const auto name = Address::parse("node-7.cluster:80").value();
  EXPECT_EQ(name.text(), "node-7.cluster:80");
  EXPECT_FALSE(name.numeric().has_value());
  EXPECT_EQ(Address::parse("/run/x.sock")->path(), "/run/x.sock");
  EXPECT_EQ(Address::parse("ipc:///run/x.sock")->path(), "/run/x.sock");
  EXPECT_EQ(Address::parse("tcp://127.0.0.1:1")->text(), "127.0.0.1:1");
}

TEST(Address, RejectsInvalidTextAndNamesForm) {
  for (const std::string text :
       {"", "host", ":80", "host:", "host:65536", "host:-1", "host:80x", "::1:80", "[::1]", "[x]:1",
        "[1.2.3.4]:1", "ho st:1", "host/x:1", "a\nb:1", "*:1"}) {
    const auto parsed = Address::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(parsed.error().text.find("NAME:PORT"), std::string::npos) << parsed.error().text;
  }
  EXPECT_EQ(Address::parse("/" + std::string(107, 'x')).error().code, ErrorCode::invalid_argument);
}

TEST(Address, RecognizesLoopback) {
  EXPECT_TRUE(Address::parse("127.9.9.9:1")->numeric()->loopback());
  EXPECT_FALSE(Address::parse("0.0.0.0:1")->numeric()->loopback());
  EXPECT_FALSE(Address::parse("[::]:1")->numeric()->loopback());
  EXPECT_TRUE(Address::parse("[::ffff:127.0.0.1]:1")->numeric()->loopback());
  EXPECT_FALSE(Address::parse("192.168.0.1:1")->numeric()->loopback());
}

TEST(NameResolver, RepliesOnTheLoop) {
  const auto loop = make_loop();
  NameResolver resolver(*loop);
  std::string found;
  ASSERT_TRUE(
      resolver.resolve(Address::parse("localhost:80").value(), [&](Result<SocketAddress> answer) {
        found = answer ? answer->text() : answer.error().text;
      }));
  EXPECT_EQ(found, "") << "not from within ask()";
  ASSERT_TRUE(turn_until(*loop, [&] { return !found.empty(); }));
  EXPECT_TRUE(found == "127.0.0.1:80" || found == "[::1]:80") << found;
}

TEST(NameResolver, Destroyed_RepliesNothing) {
  const auto loop = make_loop();
  {
    NameResolver resolver(*loop);
    ASSERT_TRUE(resolver.resolve(Address::parse("localhost:80").value(),
                                 [&](const Result<SocketAddress>&) { FAIL(); }));
  }
  turn_for(*loop, 20ms);
}

}  // namespace
}  // namespace mobula::internal
