// Connections between exchanges of two simulated machines: their lifetime, and their loss.
#include "tensor/exchange/exchange_process.h"
#include "transport/tensor/link_proxy.h"

namespace mobula::internal::exchange {
namespace {

constexpr std::size_t far_size = 300'001;
constexpr TransportPreference by_tcp{.direct = true, .named = DirectPath::tcp};

Member on_machine(std::uint64_t number) {
  return {.number = number, .node = number, .own_host = std::to_string(number)};
}

// A connection whose peer has shown a ticket is not a silent one, and the bus keeps it open.
TEST(TensorConnectionsTest, OutliveHandshakeTimeout) {
  const SocketDir sockets;
  Member maker = on_machine(1);
  maker.handshake_timeout = 50ms;
  Process one(sockets.path(), maker);
  Process two(sockets.path(), on_machine(2));
  const Time began = monotonic_now();
  for (std::uint64_t object = 7; monotonic_now() - began < 6 * maker.handshake_timeout; ++object) {
    const auto arrival = two.pull(one.register_tensor(object, far_size, false, by_tcp));
    ASSERT_TRUE(is_numbered(arrival, object, far_size));
    ASSERT_TRUE(arrival.refusals.empty()) << arrival.refusals.front();
    (void)one.exchange().unregister(ObjectId::of(object));
  }
}

// The connection ends in its handshake, after it, or between two chunks. The holder lives on.
TEST(TensorConnectionsTest, ConnectionBreaks_PullContinues) {
  using direct_test::LinkFault;
  for (const std::uint64_t after : {0, 200, 700, 1200}) {
    const SocketDir sockets;
    Process one(sockets.path(), on_machine(1));
    Process two(sockets.path(), on_machine(2));
    constexpr std::size_t large = 40u << 20;
    auto ref = one.register_tensor(7, large, false, by_tcp);
    direct_test::LinkProxy proxy(ref.tensor->holder->address);
    ref.tensor.edit().holder.edit().address = proxy.address();
    proxy.set(LinkFault::cut, after);
    two.exchange().pull(1, {ref}, false);
    ASSERT_TRUE(soon([&] { return proxy.met(); })) << after;
    proxy.set(LinkFault::none);
    EXPECT_TRUE(is_numbered(two.wait_for(1).front(), 7, large)) << after;
  }
}

}  // namespace
}  // namespace mobula::internal::exchange
