#include "transport/net/port_probe.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <optional>
#include <string>

#include "transport/bytes_fixture.h"
#include "transport/loop_fixture.h"

namespace mobula::internal {
namespace {

std::optional<ProbeOutcome> outcome_at(const SocketAddress& address) {
  const auto loop = make_loop();
  std::optional<ProbeOutcome> seen;
  const PortProbe probe(*loop, address, 2s, [&](ProbeOutcome outcome) { seen = outcome; });
  EXPECT_FALSE(seen.has_value()) << "not from within the constructor";
  EXPECT_TRUE(turn_until(*loop, [&] { return seen.has_value(); }));
  return seen;
}

TEST(PortProbe, DistinguishesListenerFromRefusal) {
  Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress any = *Address::parse("127.0.0.1:0")->numeric();
  ASSERT_EQ(::bind(listener.get(), any.get(), any.size), 0);
  const SocketAddress where = local_address_of(listener.get()).value();
  EXPECT_EQ(outcome_at(where), ProbeOutcome::refused) << "bound, but not listening";
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(outcome_at(where), ProbeOutcome::open);
  listener.reset();
  EXPECT_EQ(outcome_at(where), ProbeOutcome::refused);
}

TEST(PortProbe, MissingLocalSocket_IsRefused) {
  const TemporaryDirectory directory;
  EXPECT_EQ(outcome_at(*Address::parse(directory.file("none"))->numeric()), ProbeOutcome::refused);
}

TEST(PortProbe, Probe_MayBeDestroyedBeforeReply) {
  const auto loop = make_loop();
  {
    const PortProbe probe(*loop, *Address::parse("127.0.0.1:1")->numeric(), 1s,
                          [](ProbeOutcome) { FAIL(); });
  }
  turn_for(*loop, 10ms);
}

}  // namespace
}  // namespace mobula::internal
