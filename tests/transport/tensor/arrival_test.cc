// Bytes arrive: all sizes, all kinds of sources, concurrently, in every direction.
#include "base/random.h"
#include "transport/tensor/conformance.h"

namespace mobula::internal::direct_test {
namespace {

using Data = PairConformance;

TEST_P(Data, TransfersEverySizeAtAnyAlignment) {
  belongs_to(Part::sizes);
  open();
  std::uint64_t seed = 0;
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, 64 * kib - 1, 64 * kib,
                                   64 * kib + 1, 2 * mib - 1, 2 * mib, 2 * mib + 1, 64 * mib}) {
    for (const bool in_file : {true, false}) {
      SCOPED_TRACE(testing::Message() << size << (in_file ? " in a file" : " elsewhere"));
      const std::uint64_t offset = in_file ? 0 : 13;
      transfer(holder(), receiver(), 1, {{size, ++seed, offset, in_file}});
      transfer(holder(), receiver(), 1, {{size / 2 + 1, ++seed, 4'099, in_file}});
    }
  }
}

using LargeData = PairConformance;

TEST_P(LargeData, TransfersOneGibibyte) {
  belongs_to(Part::gibibyte);
  open();
  transfer(holder(), receiver(), 1, {{1024 * mib, 7, 0, true}});
  transfer(holder(), receiver(), 1, {{1024 * mib, 8, 1, false}});
}

TEST_P(Data, TransfersManyRegionsTogether) {
  belongs_to(Part::regions);
  open();
  Random random(17);
  std::vector<RegionSpec> regions;
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    const std::uint64_t size = random.chance(50) ? random.below(300 * kib) : random.below(3'000);
    const std::uint64_t offset = random.below(64);
    regions.push_back({size, i + 1, offset, random.chance(500)});
  }
  transfer(holder(), receiver(), 1, regions);
  transfer(holder(), receiver(), 1, {});
}

TEST_P(Data, TransfersDataCopiedAtOffer) {
  belongs_to(Part::copied_offer);
  open();
  for (const std::uint64_t size : {100 * kib, 20 * mib}) {
    const std::vector<RegionSpec> regions{{size, 3, 5, false}};
    const TransferId id = next();
    const auto ticket = holder().offer(id, receiver(), 1, regions, true);
    ASSERT_TRUE(ticket) << ticket.error().text;
    receiver().pull(id, holder(), 1, *ticket, regions);
    expect_right(receiver(), id, regions);
    holder().release(id);
  }
  EXPECT_EQ(holder().figures().arena_used, 0u);
}

using ClosedData = PairConformance;

TEST_P(ClosedData, ProcessesUnreadable_CopiesData) {
  belongs_to(Part::copied_offer);
  NodeOptions closed = options();
  closed.read_processes = false;
  for (const bool holder_is : {true, false}) {
    make(holder_is ? closed : options(), holder_is ? options() : closed);
    open();
    transfer(holder(), receiver(), 1, {{5 * mib, 1, 0, false}, {100, 2, 0, true}});
    EXPECT_EQ(holder().figures().arena_used, 0u);
  }
}

TEST_P(Data, TransfersOneSourceToTwoTargets) {
  belongs_to(Part::several_readers);
  open();
  const auto other = within() ? nullptr : node();
  if (other) {
    const auto opened = other->open(holder(), 1);
    ASSERT_TRUE(opened) << opened.error().text;
  }
  Node& second = other ? *other : holder();
  const std::vector<RegionSpec> regions{{24 * mib, 5, 0, true}};
  const TransferId first_id = begin(holder(), receiver(), 1, regions);
  const TransferId second_id = begin(holder(), second, 1, regions);
  const TransferId third_id = begin(holder(), receiver(), 1, regions);
  expect_right(receiver(), third_id, regions);
  expect_right(second, second_id, regions);
  expect_right(receiver(), first_id, regions);
}

TEST_P(Data, HolderBusy_TransferContinues) {
  belongs_to(Part::busy_holder);
  open();
  holder().keep_busy(10'000);
  for (std::uint64_t i = 1; i <= 5; ++i)
    transfer(holder(), receiver(), 1, {{4 * mib, i, 0, i % 2 == 0}});
  EXPECT_TRUE(holder().figures().busy) << "its user code has ended: keep it busy for longer";
}

using DataInPlace = PairConformance;

TEST_P(DataInPlace, MapsDataInPlace) {
  belongs_to(Part::in_place);
  open();
  const std::vector<RegionSpec> regions{{3 * mib, 1, 0, true}, {0, 2, 0, true}, {77, 3, 0, true}};
  const TransferId id = next();
  const auto ticket = holder().offer(id, receiver(), 1, regions);
  ASSERT_TRUE(ticket);
  const Seen seen = receiver().map(id, holder(), 1, *ticket, regions);
  EXPECT_TRUE(seen.ok) << seen.text;
  EXPECT_TRUE(seen.right);
  EXPECT_TRUE(receiver().still_offered(id));
  holder().release(id);
  EXPECT_FALSE(receiver().still_offered(id));
  const Seen late = receiver().map(next(), holder(), 1, *ticket, regions);
  EXPECT_FALSE(late.ok);
  receiver().drop(id);
  if (within() || on_device()) return;
  const TransferId elsewhere = next();
  const auto other = holder().offer(elsewhere, receiver(), 1, {{mib, 1, 0, false}});
  ASSERT_TRUE(other);
  EXPECT_EQ(receiver().map(elsewhere, holder(), 1, *other, {{mib, 1, 0, false}}).code,
            ErrorCode::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Ways, Data, every_way, way_name);
INSTANTIATE_TEST_SUITE_P(Ways, ClosedData, testing::Values(Way::shm), way_name);
INSTANTIATE_TEST_SUITE_P(Ways, DataInPlace, testing::Values(Way::inproc, Way::shm, Way::cuda_ipc),
                         way_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LargeData);
INSTANTIATE_TEST_SUITE_P(Ways, LargeData, large_ways(Way::inproc), way_name);

using Graph = Conformance;

// Starts all transfers before it waits for any of them.
class Traffic {
 public:
  explicit Traffic(std::vector<std::unique_ptr<Node>>& nodes) : nodes_(nodes) {}
  void open(std::size_t from, std::size_t to) {
    const auto opened = nodes_[to]->open(*nodes_[from], 1);
    ASSERT_TRUE(opened) << opened.error().text;
  }
  struct Edge {
    std::size_t from, to;
    TransferId id;
    std::vector<RegionSpec> regions;
  };
  std::vector<Edge> edges;

 private:
  std::vector<std::unique_ptr<Node>>& nodes_;
};

TEST_P(Graph, DrainsPairsRingsAndRandomGraphs) {
  belongs_to(Part::graphs);
  constexpr std::size_t count = 8;
  std::vector<std::unique_ptr<Node>> nodes;
  for (std::size_t i = 0; i < count; ++i) nodes.push_back(node());
  Traffic traffic(nodes);
  Random random(3);
  std::vector<std::pair<std::size_t, std::size_t>> wanted;
  // A ring of nodes.
  for (std::size_t i = 0; i < count; ++i) wanted.emplace_back(i, (i + 1) % count);
  // The opposite direction.
  for (std::size_t i = 0; i + 1 < count; i += 2) wanted.emplace_back(i + 1, i);
  for (int i = 0; i < 40; ++i) {
    const std::size_t from = random.below(count);
    const std::size_t to = (from + 1 + random.below(count - 1)) % count;
    wanted.emplace_back(from, to);
  }
  for (const auto& [from, to] : wanted) traffic.open(from, to);
  for (const auto& [from, to] : wanted) {
    const std::uint64_t size = 1 + random.below(3 * mib);
    std::vector<RegionSpec> regions{{size, random.next(), 1, random.chance(500)}, {17, 3, 0, true}};
    const TransferId id = begin(*nodes[from], *nodes[to], 1, regions);
    traffic.edges.push_back({from, to, id, std::move(regions)});
  }
  for (const auto& edge : traffic.edges) expect_right(*nodes[edge.to], edge.id, edge.regions);
  for (const auto& edge : traffic.edges) nodes[edge.from]->release(edge.id);
  for (const auto& each : nodes) {
    const NodeFigures figures = each->figures();
    EXPECT_EQ(figures.offers + figures.pulls + figures.arena_used, 0u);
    EXPECT_TRUE(each->shutdown());
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Graph, between_processes, way_name);

}  // namespace
}  // namespace mobula::internal::direct_test
