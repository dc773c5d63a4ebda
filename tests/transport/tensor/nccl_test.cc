// The NCCL part of the suite, on simulated GPUs. Both sides act, one step at a time, as turns
// require. Each process has its own device.
#include <csignal>

#include "base/random.h"
#include "transport/tensor/conformance.h"

namespace mobula::internal::direct_test {
namespace {

class TwoSided : public Conformance {
 protected:
  NodeOptions on(int device, const std::string& words = {}) const {
    NodeOptions made = options();
    made.machine = machine_.environment("count=4 " + words);
    made.device = device;
    made.patience_ms = 1'500;
    return made;
  }
  void make(const std::string& words_of_holder = {}, const std::string& words_of_receiver = {}) {
    receiver_.reset();
    holder_ = node(on(0, words_of_holder));
    receiver_ = node(on(1, words_of_receiver));
  }
  // Results of both sides.
  static std::pair<Result<void>, Result<void>> open_both(Node& a, Node& b, std::uint64_t epoch,
                                                         std::uint64_t deadline_ms = 20'000) {
    a.begin_open(b, epoch, deadline_ms);
    b.begin_open(a, epoch, deadline_ms);
    const auto first = a.opened();
    return {first, b.opened()};
  }
  void open(std::uint64_t epoch = 1) {
    const auto [first, second] = open_both(*holder_, *receiver_, epoch);
    ASSERT_TRUE(first) << first.error().text;
    ASSERT_TRUE(second) << second.error().text;
  }
  TransferId start(Node& from, Node& to, std::uint64_t epoch,
                   const std::vector<RegionSpec>& regions, std::uint64_t silence_ms = 20'000) {
    const TransferId id = begin(from, to, epoch, regions, silence_ms);
    from.serve(id, to, epoch);
    return id;
  }
  void step(Node& from, Node& to, std::uint64_t epoch, const std::vector<RegionSpec>& regions) {
    const TransferId id = start(from, to, epoch, regions);
    expect_right(to, id, regions);
    from.release(id);
    to.drop(id);
  }

  std::unique_ptr<Node> holder_, receiver_;
};

TEST_P(TwoSided, TransfersEverySizeAtAnyAlignment) {
  belongs_to(Part::sizes);
  make();
  open();
  std::uint64_t seed = 0;
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, 64 * kib - 1, 64 * kib,
                                   64 * kib + 1, 2 * mib - 1, 2 * mib, 2 * mib + 1, 64 * mib}) {
    SCOPED_TRACE(size);
    step(*holder_, *receiver_, 1, {{size, ++seed, seed % 2 == 0 ? 0u : 13u}});
    // The opposite direction on the same channel.
    step(*receiver_, *holder_, 1, {{size / 2 + 1, ++seed, 4'099}});
  }
}

using LargeTwoSided = TwoSided;

TEST_P(LargeTwoSided, TransfersOneGibibyte) {
  belongs_to(Part::gibibyte);
  make();
  open();
  step(*holder_, *receiver_, 1, {{1024 * mib, 7, 1}});
}

TEST_P(TwoSided, HolderBusy_TransferContinues) {
  belongs_to(Part::busy_holder);
  make();
  open();
  holder_->keep_busy(10'000);
  for (std::uint64_t i = 1; i <= 5; ++i) step(*holder_, *receiver_, 1, {{4 * mib, i}});
  EXPECT_TRUE(holder_->figures().busy) << "its user code has ended: keep it busy for longer";
}

TEST_P(TwoSided, OfferEndsMidway_DeliversNoWrongData) {
  belongs_to(Part::dropped_midway);
  make();
  for (std::uint64_t epoch = 1; epoch <= 8; ++epoch) {
    open(epoch);
    const TransferId id = start(*holder_, *receiver_, epoch, {{64 * mib, epoch}}, 2'000);
    holder_->release(id);  // then overwrites the region
    const Seen seen = receiver_->seen(id);
    EXPECT_TRUE(seen.ok ? seen.right : !seen.text.empty()) << seen.text;
    EXPECT_TRUE(seen.guards);
    receiver_->drop(id);
  }
  open(20);
  step(*holder_, *receiver_, 20, {{mib, 3}});
}

TEST_P(TwoSided, UsesMeantDeviceUnderUuidMasks) {
  belongs_to(Part::masks);
  const auto uuids = device_uuids(machine_, "count=4");
  ASSERT_EQ(uuids.size(), 4u);
  NodeOptions first = on(0), second = on(0);
  first.mask = uuids[3] + "," + uuids[1];  // each process has a different first device
  second.mask = uuids[1] + "," + uuids[3];
  holder_ = node(first);
  receiver_ = node(second);
  open();
  step(*holder_, *receiver_, 1, {{3 * mib, 1}});
  step(*receiver_, *holder_, 1, {{3 * mib, 2}});
  first.mask = uuids[1];
  const auto same = node(first);
  EXPECT_FALSE(same->open(*receiver_, 1)) << "one device under two masks";
}

TEST_P(TwoSided, TransfersManyRegionsInGroups) {
  belongs_to(Part::regions);
  make();
  open();
  Random random(17);
  std::vector<RegionSpec> regions;
  for (std::uint64_t i = 0; i < 1'000; ++i)
    regions.push_back({random.below(3'000), i + 1, random.below(64)});
  step(*holder_, *receiver_, 1, regions);
  step(*holder_, *receiver_, 1, {});
}

TEST_P(TwoSided, OpensOneChannelWhenBothSidesConnect) {
  belongs_to(Part::graphs);
  std::vector<std::unique_ptr<Node>> nodes;
  for (int i = 0; i < 4; ++i) nodes.push_back(node(on(i)));
  Random random(5);
  for (std::size_t a = 0; a < nodes.size(); ++a) {
    for (std::size_t b = a + 1; b < nodes.size(); ++b) {
      const auto [first, second] = open_both(*nodes[a], *nodes[b], 1);
      ASSERT_TRUE(first && second) << (first ? second : first).error().text;
    }
  }
  for (int round = 0; round < 6; ++round) {
    // Two pairs at once, each in both directions in sequence.
    const std::size_t a = random.below(4), b = (a + 1 + random.below(3)) % 4;
    std::vector<std::size_t> others;
    for (std::size_t i = 0; i < 4; ++i) {
      if (i != a && i != b) others.push_back(i);
    }
    const std::vector<RegionSpec> regions{{1 + random.below(2 * mib), random.next(), 1},
                                          {17, 3, 0}};
    const TransferId first = start(*nodes[a], *nodes[b], 1, regions);
    const TransferId second = start(*nodes[others[0]], *nodes[others[1]], 1, regions);
    expect_right(*nodes[b], first, regions);
    expect_right(*nodes[others[1]], second, regions);
    nodes[a]->release(first);
    nodes[others[0]]->release(second);
    step(*nodes[b], *nodes[a], 1, regions);
  }
  for (const auto& each : nodes) {
    const NodeFigures figures = each->figures();
    EXPECT_EQ(figures.offers + figures.pulls + figures.arena_used, 0u);
    EXPECT_TRUE(each->shutdown());
  }
}

TEST_P(TwoSided, RejectsSecondStepWithoutTurn) {
  belongs_to(Part::one_step);
  make();
  open();
  const TransferId first = begin(*holder_, *receiver_, 1, {{mib, 1}});
  const TransferId second = begin(*holder_, *receiver_, 1, {{mib, 2}});
  EXPECT_EQ(receiver_->seen(second).code, ErrorCode::resource_exhausted);
  holder_->serve(first, *receiver_, 1);
  expect_right(*receiver_, first, {{mib, 1}});
}

TEST_P(TwoSided, Cancel_ClosesChannelWithoutLateWrites) {
  belongs_to(Part::cancelled);
  make();
  std::uint64_t epoch = 0;
  for (const std::uint64_t delay_us : {0, 500, 2'000, 5'000, 20'000}) {
    SCOPED_TRACE(delay_us);
    open(++epoch);
    const std::vector<RegionSpec> regions{{40 * mib, delay_us + 1, 3}};
    const TransferId id = start(*holder_, *receiver_, epoch, regions);
    if (delay_us > 0) receiver_->cancel_after(id, delay_us);
    if (delay_us == 0) receiver_->cancel(id);
    const Seen ended = receiver_->seen(id);
    EXPECT_TRUE(ended.ok ? ended.right : ended.code == ErrorCode::cancelled) << ended.text;
    EXPECT_TRUE(ended.guards);
    const Seen quiet = receiver_->cancel(id);
    holder_->release(id);
    open(++epoch);
    step(*holder_, *receiver_, epoch, {{mib, 7}});
    EXPECT_EQ(receiver_->inspect(id).sum, quiet.sum) << "written after quiet";
    receiver_->drop(id);
  }
  EXPECT_EQ(holder_->figures().offers + receiver_->figures().pulls, 0u);
  EXPECT_FALSE(holder_->figures().lost || receiver_->figures().lost);
}

TEST_P(TwoSided, HolderKilled_ClosesOnlyItsChannel) {
  belongs_to(Part::killed_holder);
  make();
  const auto third = node(on(2));
  open();
  const TransferId id = start(*holder_, *receiver_, 1, {{64 * mib, 1}}, 1'000);
  holder_->kill();
  const Seen seen = receiver_->seen(id);
  EXPECT_TRUE(seen.ok ? seen.right : !seen.text.empty());
  EXPECT_TRUE(seen.guards);
  receiver_->peer_down(holder_->process());
  const auto [first, second] = open_both(*third, *receiver_, 1);
  ASSERT_TRUE(first && second);
  step(*third, *receiver_, 1, {{mib, 2}});
  // Before the channel exists, and during its setup.
  const auto fourth = node(on(3));
  fourth->kill();
  receiver_->begin_open(*fourth, 1, 700);
  EXPECT_FALSE(receiver_->opened());
  step(*third, *receiver_, 1, {{mib, 3}});
}

TEST_P(TwoSided, PeerNeverConnects_TimesOut) {
  belongs_to(Part::strangers);
  make();
  for (Node* const alone : {holder_.get(), receiver_.get()}) {
    Node& other = alone == holder_.get() ? *receiver_ : *holder_;
    const auto opened = alone->open(other.process(), other.endpoint(), 1, 500);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::timed_out) << opened.error().text;
  }
  open(5);
  EXPECT_FALSE(holder_->open(*receiver_, 4)) << "a lower epoch";
  // A step that only one side starts ends by its limit.
  const TransferId id = begin(*holder_, *receiver_, 5, {{mib, 1}}, 400);
  EXPECT_EQ(receiver_->seen(id).code, ErrorCode::timed_out);
  receiver_->pull(id, *holder_, 5, {}, {{mib, 1}});
  EXPECT_FALSE(receiver_->seen(id).ok) << "the channel is gone";
}

TEST_P(TwoSided, RejectsPairsThatNcclRejects) {
  belongs_to(Part::strangers);
  const auto first = node(on(0)), same = node(on(0)), newer = node(on(1, "nccl=23007"));
  const auto refused = first->open(*same, 1);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("cuda_ipc"), std::string::npos) << refused.error().text;
  const auto version = first->open(*newer, 1);
  ASSERT_FALSE(version);
  EXPECT_NE(version.error().text.find("2.30.7"), std::string::npos) << version.error().text;
  // The switch of NCCL 2.30 on one side alone is not enough, and the peer has to report it.
  const auto alone = node(on(0, "nccl=23007")), beside = node(on(0, "nccl=23007"));
  const auto unset = alone->open(*beside, 1);
  ASSERT_FALSE(unset);
  EXPECT_NE(unset.error().text.find("NCCL_MULTI_RANK_GPU_ENABLE"), std::string::npos)
      << unset.error().text;
  // Two "hosts" on one device, as a test with a single GPU uses.
  NodeOptions a = on(0), b = on(0);
  a.nccl_host = "a";
  b.nccl_host = "b";
  const auto one = node(a), two = node(b);
  const auto [opened, also] = open_both(*one, *two, 1);
  ASSERT_TRUE(opened && also) << (opened ? also : opened).error().text;
  step(*one, *two, 1, {{3 * mib, 1}});
}

TEST_P(TwoSided, RejectsUntrustedFabric) {
  belongs_to(Part::untrusted);
  NodeOptions sealed = on(0);
  sealed.sealed = true;
  const auto first = node(sealed), second = node(on(1));
  const auto opened = first->open(*second, 1);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().text.find("fabric not trusted"), std::string::npos)
      << opened.error().text;
}

TEST_P(TwoSided, KernelHangs_RevokedAndNextChannelWorks) {
  belongs_to(Part::hanging_kernel);
  belongs_to(Part::link_cut);
  make("hang=kernel@1", "hang=kernel@1");
  open();
  const TransferId id = start(*holder_, *receiver_, 1, {{mib, 1}}, 300);
  const Seen seen = receiver_->seen(id);
  EXPECT_EQ(seen.code, ErrorCode::timed_out) << seen.text;
  EXPECT_TRUE(seen.guards);
  holder_->release(id);
  open(2);
  step(*holder_, *receiver_, 2, {{mib, 2}});
  EXPECT_FALSE(holder_->figures().lost || receiver_->figures().lost);
}

TEST_P(TwoSided, AbortHangs_IsReportedLost) {
  belongs_to(Part::endless_abort);
  make("", "hang=connect@1,abort@1");
  open();
  const TransferId id = start(*holder_, *receiver_, 1, {{mib, 1}}, 300);
  // Without a callback: it is unknown whether its memory is quiet.
  const Time deadline = monotonic_now() + 20s;
  while (!receiver_->figures().lost && monotonic_now() < deadline) {
  }
  EXPECT_TRUE(receiver_->figures().lost);
  EXPECT_FALSE(receiver_->inspect(id).ok);
  holder_->release(id);
  EXPECT_FALSE(holder_->figures().lost);
}

TEST_P(TwoSided, ThousandCycles_LeaveNothing) {
  belongs_to(Part::cycles);
  make();
  open(1);
  step(*holder_, *receiver_, 1, {{64 * kib, 1}});
  const NodeFigures before_holder = holder_->figures(), before = receiver_->figures();
  std::uint64_t epoch = 1;
  for (int i = 0; i < 1'000; ++i) {
    step(*holder_, *receiver_, epoch, {{64 * kib, static_cast<std::uint64_t>(i)}});
    if (i % 50 == 49) open(++epoch);
  }
  const Time deadline = monotonic_now() + 20s;
  NodeFigures after_holder, after;
  do {
    after_holder = holder_->figures();
    after = receiver_->figures();
  } while (monotonic_now() < deadline &&
           (after_holder.descriptors + after.descriptors >
                before_holder.descriptors + before.descriptors ||
            after_holder.threads + after.threads > before_holder.threads + before.threads));
  EXPECT_LE(after_holder.descriptors, before_holder.descriptors);
  EXPECT_LE(after.descriptors, before.descriptors);
  EXPECT_LE(after_holder.threads, before_holder.threads);
  EXPECT_LE(after.threads, before.threads);
  EXPECT_EQ(after.channels, 1u);
}

INSTANTIATE_TEST_SUITE_P(Ways, TwoSided, testing::Values(Way::nccl), way_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LargeTwoSided);
INSTANTIATE_TEST_SUITE_P(Ways, LargeTwoSided, large_ways(Way::nccl), way_name);

}  // namespace
}  // namespace mobula::internal::direct_test
