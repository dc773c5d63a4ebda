// Connections between exchanges of two simulated machines: their lifetime, and their loss.
#include "tensor/exchange/exchange_process.h"

namespace mobula::internal::exchange {
namespace {

constexpr std::size_t far_size = 300'001;
constexpr TransportPreference by_tcp{.direct = true, .named = DirectPath::tcp};

Member on_machine(std::uint64_t number) {
  return {.number = number, .node = number, .own_host = std::to_string(number)};
}

// A connection whose peer has shown a ticket is not a silent one, and the bus keeps it open.
TEST(TensorConnectionsTest, OutliveHandshakeTimeout) {
  const Directory directory;
  Member maker = on_machine(1);
  maker.handshake_timeout = 50ms;
  Process one(directory.path(), maker);
  Process two(directory.path(), on_machine(2));
  const Time began = monotonic_now();
  for (std::uint64_t object = 7; monotonic_now() - began < 6 * maker.handshake_timeout; ++object) {
    const auto arrival = two.pull(one.register_tensor(object, far_size, false, by_tcp));
    ASSERT_TRUE(is_numbered(arrival, object, far_size));
    ASSERT_TRUE(arrival.refusals.empty()) << arrival.refusals.front();
    (void)one.exchange().unregister(ObjectId::of(object));
  }
}

}  // namespace
}  // namespace mobula::internal::exchange
