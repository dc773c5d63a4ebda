// Payload of members through a transport plugin, and calls that the plugin must reject.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tensor/collective/carrier.h"
#include "tensor/collective/communicator.h"
#include "tensor/collective/core/member_core.h"
#include "tensor/collective/core/plan.h"
#include "transport/tensor/plugin/plugin_transport.h"

namespace mobula::internal::collective {
namespace {

const mobula_transport_plugin& carried_plugin() {
  static const auto opened = TransportPlugin::open(CARRIED_PLUGIN);
  EXPECT_TRUE(opened.ok()) << opened.error().text;
  return opened->table();
}

Membership carried_group(std::uint32_t rank, std::uint32_t size, std::uint8_t key = 9) {
  Membership group;
  group.id[0] = std::byte{4};
  group.rank = rank;
  group.key[0] = static_cast<std::byte>(key);
  group.actors.assign(size, "a");
  return group;
}

std::shared_ptr<Carrier> open_carrier(std::uint32_t rank, std::uint32_t size,
                                      std::uint8_t key = 9) {
  auto opened = Carrier::open(carried_plugin(), "127.0.0.1", carried_group(rank, size, key), [] {});
  EXPECT_TRUE(opened.ok()) << opened.error().text;
  return opened.ok() ? *opened : nullptr;
}

template <class Condition>
bool eventually(Condition condition) {
  const Time limit = monotonic_now() + 30s;
  while (!condition()) {
    if (monotonic_now() > limit) return false;
    std::this_thread::yield();
  }
  return true;
}

bool is_linked(const Carrier& carrier, std::uint32_t rank) {
  const auto linked = carrier.linked(rank);
  return linked && *linked;
}

TEST(Carriers, CarriesBytesInOrderBothWays) {
  const auto first = open_carrier(0, 2), second = open_carrier(1, 2);
  first->connect(1, second->endpoint());
  ASSERT_TRUE(eventually([&] { return is_linked(*first, 1) && is_linked(*second, 0); }));
  const auto one = first->wire(1), other = second->wire(0);
  constexpr std::size_t size = (20u << 20) + 7;  // more messages than one window
  std::vector<std::byte> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(i * 7 + i / 1000);
  std::vector<std::byte> there(size), back(size);
  std::size_t sent = 0, came = 0, returned = 0, home = 0;
  ASSERT_TRUE(eventually([&] {
    sent += *one->send(std::span(out).subspan(sent));
    came += *other->receive(std::span(there).subspan(came));
    returned += *other->send(std::span(there).subspan(returned, came - returned));
    home += *one->receive(std::span(back).subspan(home));
    return home == size;
  }));
  EXPECT_EQ(back, out);
}

TEST(Carriers, PeerDoesNotRead_LimitsToWindow) {
  const auto first = open_carrier(0, 2), second = open_carrier(1, 2);
  first->connect(1, second->endpoint());
  ASSERT_TRUE(eventually([&] { return is_linked(*first, 1); }));
  const auto wire = first->wire(1);
  const std::vector<std::byte> bytes(1u << 20);
  std::size_t sent = 0;
  for (std::size_t some = 1; some != 0; sent += some) some = *wire->send(bytes);
  EXPECT_LE(sent, 4u << 20);
  EXPECT_FALSE(wire->prepare_sleep(true, true));
  std::vector<std::byte> buffer(1u << 20);
  const auto other = second->wire(0);
  ASSERT_TRUE(eventually([&] { return *other->receive(buffer) != 0; }));
  EXPECT_TRUE(eventually([&] { return *wire->send(bytes) != 0; }));
}

TEST(Carriers, RejectsForeignKey) {
  const auto first = open_carrier(0, 2, 1), second = open_carrier(1, 2, 2);
  first->connect(1, second->endpoint());
  // A link with a different key is dropped, or never established.
  EXPECT_TRUE(eventually([&] { return !first->linked(1); }));
  EXPECT_FALSE(is_linked(*second, 0));
  // A member with the right key still connects.
  const auto right = open_carrier(0, 2, 2);
  right->connect(1, second->endpoint());
  EXPECT_TRUE(eventually([&] { return is_linked(*right, 1) && is_linked(*second, 0); }));
}

TEST(Carriers, ReportsPeerEnd) {
  auto first = open_carrier(0, 2);
  const auto second = open_carrier(1, 2);
  first->connect(1, second->endpoint());
  ASSERT_TRUE(eventually([&] { return is_linked(*first, 1) && is_linked(*second, 0); }));
  first.reset();
  const auto wire = second->wire(0);
  std::vector<std::byte> buffer(16);
  EXPECT_TRUE(eventually([&] { return !wire->receive(buffer); }));
}

TEST(Carriers, InvalidEndpoint_HasReason) {
  const auto alone = open_carrier(0, 2);
  alone->connect(1, "nonsense");
  EXPECT_TRUE(eventually([&] { return !alone->linked(1); }));
}

// ---- calls of NCCL ------------------------------------------------------------------------------

// Every send is in the same group of calls as its receive at the other member, for any group size.
TEST(NcclCalls, IssuesMatchingCallsTogether) {
  for (const std::uint32_t members : {1u, 2u, 5u, 256u, 300u}) {
    for (const auto kind :
         {OperationKind::gather, OperationKind::scatter, OperationKind::all_to_all}) {
      Operation operation{.kind = kind, .root = members - 1, .dtype = DType::float32, .shape = {3}};
      // By sender and receiver: number of sends and of receives.
      std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<int, int>> pairs;
      std::vector<std::byte> in(12 * members), out(12 * members);
      for (std::uint32_t rank = 0; rank < members; ++rank) {
        const auto calls = calls_for(operation, rank, members, {in, out, {}});
        for (std::size_t i = 0; i < calls.size(); ++i) {
          const auto peer = static_cast<std::uint32_t>(calls[i].peer);
          const bool sends = calls[i].kind == NcclCall::Kind::send;
          const auto at = sends ? calls[i].from - in.data() : calls[i].to - out.data();
          EXPECT_LE(static_cast<std::size_t>(at) + calls[i].count, in.size());
          auto& pair = sends ? pairs[{rank, peer}] : pairs[{peer, rank}];
          ++(sends ? pair.first : pair.second);
          if (peer == rank) {
            // Both halves of a transfer to the member itself.
            EXPECT_EQ(i / 2, 0u);
          } else if (kind == OperationKind::all_to_all) {
            const std::uint32_t distance =
                sends ? (peer + members - rank) % members : (rank + members - peer) % members;
            EXPECT_EQ(i / 2, distance);
          }
        }
      }
      const std::size_t expected =
          kind == OperationKind::all_to_all ? std::size_t{members} * members : members;
      EXPECT_EQ(pairs.size(), expected);
      for (const auto& [ends, counts] : pairs) EXPECT_EQ(counts, (std::pair{1, 1}));
    }
  }
}

TEST(NcclCalls, DistinguishesReductionsOfLibrary) {
  const auto reduced = [](DType dtype, ReduceKind reduce) {
    return check_for_library(
               {.kind = OperationKind::all_reduce, .reduce = reduce, .dtype = dtype, .shape = {4}})
        .ok();
  };
  EXPECT_TRUE(reduced(DType::float16, ReduceKind::average));
  EXPECT_TRUE(reduced(DType::boolean, ReduceKind::product));
  EXPECT_TRUE(reduced(DType::complex64, ReduceKind::sum));
  EXPECT_FALSE(reduced(DType::complex64, ReduceKind::product));
  EXPECT_FALSE(reduced(DType::int16, ReduceKind::sum));
  EXPECT_FALSE(reduced(DType::uint16, ReduceKind::max));
  // Operations without reduction accept any type.
  EXPECT_TRUE(
      check_for_library({.kind = OperationKind::all_gather, .dtype = DType::int16, .shape = {4}})
          .ok());
  const Operation complex{
      .kind = OperationKind::reduce_scatter, .dtype = DType::complex64, .shape = {6, 2}};
  std::vector<std::byte> in(96), out(32);
  const auto calls = calls_for(complex, 1, 3, {in, out, {}});
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].type, nccl_abi::type_float32);
  EXPECT_EQ(calls[0].count, 8u);  // floats of this member's part
  const Operation either{.kind = OperationKind::all_reduce, .dtype = DType::boolean, .shape = {5}};
  EXPECT_EQ(calls_for(either, 0, 2, {in, out, {}})[0].reduction, nccl_abi::op_max);
  EXPECT_TRUE(calls_for({.kind = OperationKind::all_reduce, .shape = {0}}, 0, 2, {}).empty());
  EXPECT_TRUE(calls_for({}, 0, 2, {}).empty());
}

}  // namespace
}  // namespace mobula::internal::collective
