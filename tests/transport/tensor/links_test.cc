// Links between nodes that are cut, slow, lossy, or corrupt. Every transfer ends with a matching
// reason, nothing is written late, and the next transfer succeeds.
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>

#include "transport/tensor/conformance.h"
#include "transport/tensor/link_proxy.h"
#include "transport/tensor/lossy_network.h"
#include "transport/tensor/tcp/tcp_wire.h"

namespace mobula::internal::direct_test {
namespace {

constexpr const char* no_rights = "a network namespace needs rights that this user does not have";

// A holder behind a proxy. The parameter selects encryption.
class Link : public Conformance {
 protected:
  void make(bool sealed) {
    NodeOptions with = options();
    with.sealed = sealed;
    holder_ = node(with);
    receiver_ = node(with);
    auto honest = TcpEndpoint::decode(holder_->endpoint()).value();
    proxy_ = std::make_unique<LinkProxy>(honest.address);
    honest.address = proxy_->address();
    endpoint_ = honest.encode();
    open();
  }
  void open() {
    const auto opened = receiver_->open(holder_->process(), endpoint_, ++epoch_, 20'000);
    ASSERT_TRUE(opened) << opened.error().text;
  }
  // One transfer with the fault after some bytes, then one without it.
  Seen meet(LinkFault fault, std::uint64_t after, std::uint64_t size, std::uint64_t silence_ms) {
    const std::vector<RegionSpec> regions{{size, 7, 3, true}};
    proxy_->set(fault, after);
    const TransferId id = begin(*holder_, *receiver_, epoch_, regions, silence_ms);
    const Seen seen = receiver_->seen(id);
    EXPECT_TRUE(proxy_->met()) << "the transfer ended before the fault began";
    EXPECT_TRUE(seen.guards);
    EXPECT_TRUE(!seen.ok || seen.right);
    const Seen quiet = receiver_->cancel(id);  // from here on, a write kills the receiver
    proxy_->set(LinkFault::none);
    holder_->release(id);
    if (!seen.ok) open();
    transfer(*holder_, *receiver_, epoch_, {{3 * mib, epoch_, 1, false}});
    EXPECT_EQ(receiver_->inspect(id).sum, quiet.sum) << "written late";
    receiver_->drop(id);
    EXPECT_EQ(holder_->figures().offers, 0u);
    EXPECT_EQ(receiver_->figures().pulls, 0u);
    return seen;
  }

  std::unique_ptr<Node> holder_, receiver_;
  std::unique_ptr<LinkProxy> proxy_;
  Blob endpoint_;
  std::uint64_t epoch_ = 0;
};

TEST_P(Link, Cut_EndsPendingTransfer) {
  belongs_to(Part::link_cut);
  for (const bool sealed : {false, true}) {
    make(sealed);
    // Positions: in the hello, in the first frame, midway, near the end.
    for (const std::uint64_t after : {10ull, 300ull, 3ull * mib + 17, 19ull * mib}) {
      for (const LinkFault fault : {LinkFault::cut, LinkFault::reset}) {
        SCOPED_TRACE(testing::Message() << sealed << " " << after);
        const Seen seen = meet(fault, after, 20 * mib, 20'000);
        EXPECT_EQ(seen.code, ErrorCode::unavailable) << seen.text;
      }
    }
  }
}

TEST_P(Link, Stalled_TimesOutAtLimit) {
  belongs_to(Part::link_cut);
  for (const bool sealed : {false, true}) {
    make(sealed);
    for (const std::uint64_t after : {10ull, 5ull * mib}) {
      SCOPED_TRACE(testing::Message() << sealed << " " << after);
      const Seen seen = meet(LinkFault::stall, after, 20 * mib, 600);
      EXPECT_EQ(seen.code, ErrorCode::timed_out) << seen.text;
    }
  }
}

TEST_P(Link, Trickling_CompletesWithoutTimeout) {
  belongs_to(Part::link_slow);
  for (const bool sealed : {false, true}) {
    make(sealed);
    // A chunk takes longer than the silence limit.
    const Seen seen = meet(LinkFault::trickle, 1'000, 8 * mib, 200);
    EXPECT_TRUE(seen.ok) << seen.text;
  }
}

TEST_P(Link, CorruptByte_IsDetected) {
  belongs_to(Part::link_loss);
  for (const bool sealed : {false, true}) {
    make(sealed);
    // Positions: a token or salt, a frame header, a length, the payload.
    for (const std::uint64_t after :
         {1ull, 20ull, 49ull, 52ull, 60ull, 100ull, 2ull * mib + 5, 9ull * mib}) {
      SCOPED_TRACE(testing::Message() << sealed << " " << after);
      const Seen seen = meet(LinkFault::corrupt, after, 12 * mib, 1'000);
      // The plain hello has unused bytes. A length that grew is awaited until the timeout.
      if (seen.ok) {
        EXPECT_TRUE(!sealed && after < 48);
      } else {
        EXPECT_TRUE(seen.code == ErrorCode::corrupt || seen.code == ErrorCode::timed_out)
            << seen.text;
      }
      EXPECT_TRUE(after < 100 || seen.code == ErrorCode::corrupt) << seen.text;
    }
  }
}

TEST_P(Link, Delay_CarriesAll) {
  belongs_to(Part::link_slow);
  for (const bool sealed : {false, true}) {
    make(sealed);
    EXPECT_TRUE(meet(LinkFault::delay, 0, 4 * mib, 5'000).ok);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Link, testing::Values(Way::tcp), way_name);

// While it exists, processes start in a separate network with only a loopback interface.
class OwnNetwork {
 public:
  OwnNetwork() : before_(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) {
    own_ = before_ && ::unshare(CLONE_NEWNET) == 0;
    if (own_) set_up(true);
  }
  ~OwnNetwork() {
    if (own_) MOBULA_CHECK(::setns(before_.get(), CLONE_NEWNET) == 0, "back to the network");
  }
  OwnNetwork(const OwnNetwork&) = delete;
  OwnNetwork& operator=(const OwnNetwork&) = delete;
  bool own() const { return own_; }
  // While the interface is down, every packet is lost.
  void set_up(bool up) {
    const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    EXPECT_EQ(::ioctl(socket.get(), SIOCGIFFLAGS, &request), 0);
    request.ifr_flags =
        static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    EXPECT_EQ(::ioctl(socket.get(), SIOCSIFFLAGS, &request), 0);
  }

 private:
  Fd before_;
  bool own_ = false;
};

using Network = PairConformance;

TEST_P(Network, Down_EndsTransferAndRecovers) {
  belongs_to(Part::link_cut);
  OwnNetwork network;
  if (!network.own()) GTEST_SKIP() << no_rights;
  make(options(), options());
  open();
  const std::vector<RegionSpec> regions{{64 * mib, 3, 0, true}};
  const TransferId id = next();
  const auto ticket = holder().offer(id, receiver(), 1, regions);
  ASSERT_TRUE(ticket);
  network.set_up(false);
  receiver().pull(id, holder(), 1, *ticket, regions, 500);
  const Seen seen = receiver().seen(id);
  EXPECT_FALSE(seen.ok);
  EXPECT_TRUE(seen.code == ErrorCode::timed_out || seen.code == ErrorCode::unavailable)
      << seen.text;
  const Seen quiet = receiver().cancel(id);
  network.set_up(true);
  open(2);
  transfer(holder(), receiver(), 2, regions);
  EXPECT_EQ(receiver().inspect(id).sum, quiet.sum);
  // A short interruption is survived.
  const TransferId other = begin(holder(), receiver(), 2, regions);
  network.set_up(false);
  network.set_up(true);
  expect_right(receiver(), other, regions);
}

INSTANTIATE_TEST_SUITE_P(Ways, Network, by_network, way_name);

// A holder on one host and a receiver on another one.
class Hosts : public Conformance {
 protected:
  // Returns false if this user may not create networks.
  bool start() {
    if (!network_.made()) return false;
    holder_ = on(0);
    receiver_ = on(1);
    return true;
  }
  void open(std::uint64_t epoch) {
    const auto opened = receiver_->open(*holder_, epoch);
    ASSERT_TRUE(opened) << opened.error().text;
  }

  std::unique_ptr<Node> on(int host) {
    NodeOptions with = options();
    with.address = LossyNetwork::address(host);
    with.on_host = true;
    network_.enter(host);
    auto made = node(with);
    network_.leave();
    return made;
  }

  LossyNetwork network_;
  std::unique_ptr<Node> holder_, receiver_;
};

TEST_P(Hosts, PacketLossAndDelay_TransfersComplete) {
  belongs_to(Part::link_slow);
  belongs_to(Part::link_loss);
  if (!start()) GTEST_SKIP() << no_rights;
  network_.set({.lost_per_mille = 5, .delay_us = 3'000, .cut = false});
  open(1);
  for (std::uint64_t i = 1; i <= 5; ++i) transfer(*holder_, *receiver_, 1, {{2 * mib, i, 0, true}});
  EXPECT_GT(network_.lost(), 0u);
  EXPECT_GT(network_.passed(), 1'000u) << "they went by another way";
}

TEST_P(Hosts, LinkCut_EndsTransferAndRecovers) {
  belongs_to(Part::link_cut);
  if (!start()) GTEST_SKIP() << no_rights;
  network_.set({.lost_per_mille = 0, .delay_us = 1'000, .cut = false});
  open(1);
  transfer(*holder_, *receiver_, 1, {{mib, 1, 0, true}});
  const std::vector<RegionSpec> regions{{64 * mib, 3, 0, true}};
  const std::uint64_t before = network_.passed();
  const TransferId id = begin(*holder_, *receiver_, 1, regions, 1'000);
  const Time wait_timeout = monotonic_now() + 20s;
  while (network_.passed() < before + 500 && monotonic_now() < wait_timeout) {
  }
  network_.set({.lost_per_mille = 0, .delay_us = 0, .cut = true});
  const Seen seen = receiver_->seen(id);
  EXPECT_FALSE(seen.ok);
  EXPECT_TRUE(seen.code == ErrorCode::timed_out || seen.code == ErrorCode::unavailable)
      << seen.text;
  const Seen quiet = receiver_->cancel(id);
  network_.set({});
  open(2);
  transfer(*holder_, *receiver_, 2, {{3 * mib, 4, 0, true}});
  EXPECT_EQ(receiver_->inspect(id).sum, quiet.sum) << "written late";
}

// A library that waits without end is abandoned.
TEST_P(Hosts, LinkNeverAnswers_ShutdownCompletes) {
  belongs_to(Part::endless_abort);
  if (!start()) GTEST_SKIP() << no_rights;
  const std::vector<RegionSpec> regions{{64 * mib, 3, 0, true}};
  network_.set({.lost_per_mille = 0, .delay_us = 1'000, .cut = false});
  open(1);
  transfer(*holder_, *receiver_, 1, {{mib, 1, 0, true}});
  const std::uint64_t before = network_.passed();
  (void)begin(*holder_, *receiver_, 1, regions, 60'000);
  const Time wait_timeout = monotonic_now() + 20s;
  while (network_.passed() < before + 500 && monotonic_now() < wait_timeout) {
  }
  network_.set({.lost_per_mille = 0, .delay_us = 0, .cut = true});
  const std::unique_ptr<Node> late = on(1);  // connects when no packets arrive any more
  ASSERT_TRUE(late->open(*holder_, 1, 60'000));
  const std::uint64_t lost = network_.lost();
  const TransferId id = next();
  const auto ticket = holder_->offer(id, *late, 1, regions);
  ASSERT_TRUE(ticket) << ticket.error().text;
  late->pull(id, *holder_, 1, *ticket, regions, 60'000);
  while (network_.lost() < lost + 2 && monotonic_now() < wait_timeout) {
  }
  for (Node* const each : {receiver_.get(), late.get(), holder_.get()}) {
    each->end();
    EXPECT_EQ(each->figures().channels, 0u);
  }
}

// A NIXL agent does not start on a host without a loopback interface.
std::vector<Way> but_nixl() {
  auto ways = ways_from(Way::tcp);
  std::erase(ways, Way::nixl);
  return ways;
}
INSTANTIATE_TEST_SUITE_P(Ways, Hosts, testing::ValuesIn(but_nixl()), way_name);

}  // namespace
}  // namespace mobula::internal::direct_test
