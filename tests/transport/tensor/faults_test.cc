// Failed transfers are reported, nothing is written late, and nothing leaks.
#include <csignal>

#include "transport/tensor/conformance.h"

namespace mobula::internal::direct_test {
namespace {

// Long enough to be interrupted midway.
std::vector<RegionSpec> large(Way way, bool in_file = true) {
  return {{(way >= Way::tcp ? 40 : 96) * mib, 11, 0, in_file}};
}

std::vector<Way> but_devices() {
  auto ways = ways_from(Way::shm);
  std::erase(ways, Way::cuda_ipc);
  std::erase(ways, Way::nixl);  // keeps descriptors of failed connections
  return ways;
}
const auto with_descriptors = testing::ValuesIn(but_devices());

using Cancel = PairConformance;

TEST_P(Cancel, CancelAnytime_WritesNothingLate) {
  belongs_to(Part::cancelled);
  open();
  int midway = 0;
  // On a loaded machine, some cancels precede the start or follow the end; then more rounds run.
  for (std::uint64_t round = 0; round < 12 || (midway == 0 && round < 120); ++round) {
    const std::uint64_t delay_us = round % 12 * 2'000;
    SCOPED_TRACE(testing::Message() << delay_us);
    const auto regions = large(GetParam(), delay_us % 4'000 == 0);
    const TransferId id = begin(holder(), receiver(), 1, regions);
    if (delay_us > 0) receiver().cancel_after(id, delay_us);
    if (delay_us == 0) receiver().cancel(id);
    const Seen ended = receiver().seen(id);
    EXPECT_TRUE(ended.guards);
    if (ended.ok) {
      EXPECT_TRUE(ended.right);
    } else {
      EXPECT_EQ(ended.code, ErrorCode::cancelled) << ended.text;
      if (!ended.poison) ++midway;
    }
    // Cancelling twice: both calls return at once.
    const Seen quiet = receiver().cancel(id);
    holder().release(id);
    transfer(holder(), receiver(), 1, {{2 * mib, delay_us + 1, 3, false}});
    EXPECT_EQ(receiver().inspect(id).sum, quiet.sum) << "written after quiet";
    receiver().drop(id);
  }
  EXPECT_GT(midway, 0) << "no transfer was met midway: make them longer";
  // An offer that is released while its bytes are copied.
  const TransferId id = next();
  const auto ticket = holder().offer(id, receiver(), 1, large(GetParam(), false), true);
  EXPECT_TRUE(ticket);
  holder().release(id);
  const NodeFigures figures = holder().figures();
  EXPECT_EQ(figures.offers + figures.arena_used, 0u);
}

TEST_P(Cancel, CancelsByChannelPeerAndShutdown) {
  belongs_to(Part::closing);
  open();
  const TransferId id = begin(holder(), receiver(), 1, large(GetParam()));
  receiver().close(holder(), 1);
  const Seen closed = receiver().seen(id);
  EXPECT_TRUE(closed.ok ? closed.right : closed.code == ErrorCode::cancelled) << closed.text;
  open(2);
  const TransferId other = begin(holder(), receiver(), 2, large(GetParam()));
  receiver().peer_down(holder().process());
  const Seen down = receiver().seen(other);
  EXPECT_TRUE(down.ok ? down.right : !down.text.empty());
  holder().peer_down(receiver().process());
  EXPECT_EQ(holder().figures().offers, 0u);
  const auto again = receiver().open(holder(), 3);
  ASSERT_TRUE(again) << again.error().text;
  transfer(holder(), receiver(), 3, {{mib, 1, 0, true}});
  (void)begin(holder(), receiver(), 3, large(GetParam()));
  EXPECT_TRUE(receiver().shutdown());
  EXPECT_TRUE(holder().shutdown());
  EXPECT_EQ(holder().figures().offers, 0u);
}

TEST_P(Cancel, ReleasedWhileRead_DeliversNoWrongData) {
  belongs_to(Part::dropped_midway);
  open();
  int failed = 0;
  for (std::uint64_t i = 0; i < 16; ++i) {
    const auto regions = large(GetParam(), i % 2 == 0);
    const TransferId id = begin(holder(), receiver(), 1, regions);
    holder().release(id);  // then overwrites the regions
    const Seen seen = receiver().seen(id);
    EXPECT_TRUE(seen.ok ? seen.right : seen.code != ErrorCode{}) << seen.text;
    if (!seen.ok) ++failed;
    receiver().drop(id);
  }
  EXPECT_GT(failed, 0) << "no release met a reader: make the transfers longer";
}

using Refused = PairConformance;

TEST_P(Refused, SizeMismatch_FailsBeforeWriting) {
  belongs_to(Part::size_mismatch);
  open();
  const TransferId id = next();
  const auto ticket = holder().offer(id, receiver(), 1, {{mib, 1, 0, true}, {mib, 2, 0, true}});
  ASSERT_TRUE(ticket);
  const std::vector<std::vector<RegionSpec>> wrong{{},
                                                   {{mib, 1}},
                                                   {{mib, 1}, {mib + 1, 2}},
                                                   {{mib - 1, 1}, {mib, 2}},
                                                   {{mib, 1}, {mib, 2}, {0, 3}}};
  for (const auto& regions : wrong) {
    receiver().pull(id, holder(), 1, *ticket, regions);
    const Seen seen = receiver().seen(id);
    EXPECT_EQ(seen.code, ErrorCode::invalid_argument) << seen.text;
    EXPECT_TRUE(seen.poison && seen.guards);
  }
  EXPECT_FALSE(holder().offer(id, receiver(), 1, {{1, 1}})) << "offered twice";
  receiver().pull(id, holder(), 1, *ticket, {{mib, 1}, {mib, 2}});
  expect_right(receiver(), id, {{mib, 1}, {mib, 2}});
}

TEST_P(Refused, RejectsChangedOfferHandle) {
  belongs_to(Part::lying_ticket);
  open();
  const std::vector<RegionSpec> regions{{3 * kib, 1, 0, true}, {5 * kib, 2, 0, false}};
  const TransferId id = next();
  const auto ticket = holder().offer(id, receiver(), 1, regions);
  ASSERT_TRUE(ticket);
  for (std::size_t i = 0; i < ticket->size(); ++i) {
    Blob changed = *ticket;
    changed[i] ^= std::byte{0x41};
    receiver().pull(id, holder(), 1, changed, regions, 2'000);
    const Seen seen = receiver().seen(id);
    EXPECT_FALSE(seen.ok) << "byte " << i;
    EXPECT_TRUE(seen.poison && seen.guards) << "byte " << i;
  }
  for (std::size_t size = 0; size < ticket->size(); size += 7) {
    const Blob cut(ticket->begin(), ticket->begin() + static_cast<std::ptrdiff_t>(size));
    receiver().pull(id, holder(), 1, cut, regions, 2'000);
    EXPECT_FALSE(receiver().seen(id).ok) << "cut to " << size;
  }
  Blob longer = *ticket;
  longer.resize(longer.size() + 100);
  receiver().pull(id, holder(), 1, longer, regions);
  EXPECT_FALSE(receiver().seen(id).ok);
  // The valid handle still works, on the same or a new channel.
  if (!receiver().open(holder(), 1)) open(2);
  receiver().pull(id, holder(), 1, *ticket, regions);
  expect_right(receiver(), id, regions);
  // The handle of another transfer, and of an ended one.
  receiver().pull(next(), holder(), 1, *ticket, regions);
  holder().release(id);
  receiver().pull(id, holder(), 1, *ticket, regions);
  const Seen late = receiver().seen(id);
  EXPECT_EQ(late.code, ErrorCode::not_found) << late.text;
  EXPECT_TRUE(late.poison);
}

TEST_P(Refused, StaleEpochsAndForeignEndpoints_Fail) {
  belongs_to(Part::strangers);
  open(5);
  const TransferId id = next();
  const auto ticket = holder().offer(id, receiver(), 5, {{mib, 1, 0, true}});
  ASSERT_TRUE(ticket);
  // Without a channel, and on a channel of another epoch.
  receiver().pull(id, holder(), 4, *ticket, {{mib, 1}});
  EXPECT_FALSE(receiver().seen(id).ok);
  open(6);
  receiver().pull(id, holder(), 6, *ticket, {{mib, 1}});
  EXPECT_EQ(receiver().seen(id).code, ErrorCode::permission_denied);
  EXPECT_FALSE(receiver().open(holder(), 5)) << "a lower epoch";
  transfer(holder(), receiver(), 6, {{mib, 1, 0, true}});
  // An endpoint of another version, another kind, or of no process.
  for (std::size_t i = 0; i < 3; ++i) {
    Blob other = holder().endpoint();
    other[i] ^= std::byte{0x40};
    EXPECT_FALSE(receiver().reach(holder().process(), other));
    EXPECT_FALSE(receiver().open(holder().process(), other, 9, 1'000));
  }
  EXPECT_FALSE(receiver().open(holder().process(), {}, 9, 1'000));
  EXPECT_FALSE(receiver().reach(ProcessId::random(), holder().endpoint()));
  EXPECT_FALSE(receiver().open(ProcessId::random(), holder().endpoint(), 9, 1'000));
  EXPECT_EQ(receiver().reach(holder()).ok(), !on_device()) << "memory of the host";
  EXPECT_EQ(receiver().reach(holder(), MemoryKind::device).ok(), on_device())
      << "memory of a device";
  transfer(holder(), receiver(), 6, {{mib, 2, 0, true}});
}

using Fabric = PairConformance;

TEST_P(Fabric, CarriesPlainBytesOnlyIfBothTrustIt) {
  belongs_to(Part::untrusted);
  for (const bool holder_trusts : {false, true}) {
    for (const bool receiver_trusts : {false, true}) {
      SCOPED_TRACE(testing::Message() << holder_trusts << receiver_trusts);
      NodeOptions for_holder = options(), for_receiver = options();
      for_holder.sealed = !holder_trusts;
      for_receiver.sealed = !receiver_trusts;
      make(for_holder, for_receiver);
      if (is_plugged(GetParam()) && !(holder_trusts && receiver_trusts)) {
        const auto opened = receiver().open(holder(), 1);
        const auto offered = holder().offer(next(), receiver(), 1, {{mib, 1, 0, true}});
        EXPECT_EQ(opened.ok(), receiver_trusts);
        EXPECT_EQ(offered.ok(), holder_trusts);
        const Failure why = opened ? offered.error() : opened.error();
        EXPECT_EQ(why.code, ErrorCode::permission_denied);
        EXPECT_NE(why.text.find("fabric not trusted"), std::string::npos) << why.text;
        continue;
      }
      open();
      const TransferId id = begin(holder(), receiver(), 1, {{3 * mib, 1, 0, true}});
      const Seen seen = receiver().seen(id);
      if (holder_trusts && !receiver_trusts) {
        EXPECT_EQ(seen.code, ErrorCode::permission_denied) << seen.text;
        EXPECT_TRUE(seen.poison);
        continue;
      }
      EXPECT_TRUE(seen.ok && seen.right) << seen.text;
      EXPECT_EQ(seen.encrypted, !holder_trusts);
    }
  }
}

using Death = PairConformance;

TEST_P(Death, HolderKilled_ReceiverFailsCleanly) {
  belongs_to(Part::killed_holder);
  for (const int when : {0, 1, 2, 3, 4}) {
    SCOPED_TRACE(when);
    make(options(), options());
    if (when > 0) open();
    const auto regions = large(GetParam(), when % 2 == 0);
    const TransferId id = next();
    const auto ticket = holder().offer(id, receiver(), 1, regions);
    ASSERT_TRUE(ticket);
    if (when <= 1) holder().kill();
    if (when == 0) {
      const auto opened = receiver().open(holder(), 1);
      EXPECT_EQ(opened.ok(), !greets());
    }
    receiver().pull(id, holder(), 1, *ticket, regions);
    if (when > 1) holder().kill();
    const Seen seen = receiver().seen(id);
    EXPECT_TRUE(seen.guards);
    EXPECT_TRUE(seen.ok ? seen.right : !seen.text.empty()) << seen.text;
    EXPECT_TRUE(when > 1 || !seen.ok);
    receiver().peer_down(holder().process());
    const Seen quiet = receiver().inspect(id);
    const auto successor = node();
    const auto opened = receiver().open(*successor, 1);
    ASSERT_TRUE(opened) << opened.error().text;
    transfer(*successor, receiver(), 1, regions);
    EXPECT_EQ(receiver().inspect(id).sum, quiet.sum);
    EXPECT_EQ(receiver().figures().pulls, 0u);
  }
}

TEST_P(Death, ReceiverKilled_HolderReleasesOffers) {
  belongs_to(Part::killed_receiver);
  open();
  const auto other = node();
  ASSERT_TRUE(other->open(holder(), 1));
  const auto regions = large(GetParam(), false);
  const TransferId id = next();
  const auto ticket = holder().offer(id, receiver(), 1, regions, true);
  ASSERT_TRUE(ticket);
  receiver().pull(id, holder(), 1, *ticket, regions);
  const TransferId untouched = begin(holder(), *other, 1, large(GetParam()));
  receiver().kill();
  holder().peer_down(receiver().process());
  expect_right(*other, untouched, large(GetParam()));
  holder().release(untouched);
  holder().release(id);
  const NodeFigures figures = holder().figures();
  EXPECT_EQ(figures.offers + figures.arena_used, 0u);
}

TEST_P(Death, HolderStopped_TimesOutWithoutLateWrites) {
  belongs_to(Part::stopped);
  open();
  const auto regions = large(GetParam(), false);
  const TransferId id = next();
  const auto ticket = holder().offer(id, receiver(), 1, regions, true);
  ASSERT_TRUE(ticket);
  holder().signal(SIGSTOP);
  receiver().pull(id, holder(), 1, *ticket, regions, 700);
  const Seen seen = receiver().seen(id);
  EXPECT_TRUE(seen.ok ? seen.right : seen.code == ErrorCode::timed_out) << seen.text;
  EXPECT_EQ(receiver().open(holder(), 2, 700).ok(), !greets());
  const Seen quiet = receiver().cancel(id);
  holder().signal(SIGCONT);
  open(3);
  transfer(holder(), receiver(), 3, regions);
  EXPECT_EQ(receiver().inspect(id).sum, quiet.sum) << "written late";
}

TEST_P(Death, ReceiverStopped_LearnsThatOfferEnded) {
  belongs_to(Part::stopped_receiver);
  open();
  int failed = 0;
  // A sending holder waits some seconds for a receiver that does not read.
  const std::uint64_t rounds = networked() ? 3 : 12;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    const auto regions = large(GetParam(), i % 2 == 0);
    const TransferId id = begin(holder(), receiver(), 1, regions);
    receiver().signal(SIGSTOP);
    holder().release(id);
    receiver().signal(SIGCONT);
    const Seen seen = receiver().seen(id);
    EXPECT_TRUE(seen.ok ? seen.right : !seen.text.empty()) << seen.text;
    if (!seen.ok) ++failed;
    receiver().drop(id);
  }
  EXPECT_GT(failed, 0) << "no stop met a reader: make the transfers longer";
}

using Bounds = PairConformance;

TEST_P(Bounds, ThousandTransfers_LeaveNothing) {
  belongs_to(Part::cycles);
  open();
  const std::vector<RegionSpec> regions{{600 * kib, 1, 0, true}, {3 * kib, 2, 1, false}};
  for (int i = 0; i < 20; ++i) transfer(holder(), receiver(), 1, regions);
  const NodeFigures before_holder = holder().figures(), before = receiver().figures();
  std::uint64_t epoch = 1;
  for (int i = 0; i < 1'000; ++i) {
    const TransferId id = begin(holder(), receiver(), epoch, regions);
    if (i % 10 == 9) {
      receiver().cancel(id);
    } else {
      expect_right(receiver(), id, regions);
    }
    holder().release(id);
    receiver().drop(id);
    if (i % 50 != 49) continue;
    receiver().close(holder(), epoch);
    open(++epoch);
  }
  // The last channel works like the first one.
  transfer(holder(), receiver(), epoch, regions);
  transfer(holder(), receiver(), epoch, regions);
  // The peer of a connection observes its end a little later, and its threads end after that.
  const Time deadline = monotonic_now() + 10s;
  NodeFigures after_holder, after;
  do {
    after_holder = holder().figures();
    after = receiver().figures();
  } while (monotonic_now() < deadline &&
           (after_holder.descriptors > before_holder.descriptors ||
            after.descriptors > before.descriptors ||
            after_holder.threads != before_holder.threads || after.threads != before.threads));
  EXPECT_LE(after_holder.descriptors, before_holder.descriptors);
  EXPECT_LE(after.descriptors, before.descriptors);
  EXPECT_EQ(after_holder.threads, before_holder.threads);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after_holder.offers + after_holder.arena_used + after.pulls, 0u);
  EXPECT_EQ(after.mapped, before.mapped);
  EXPECT_EQ(after.channels, before.channels);
  EXPECT_LT(after.resident, before.resident + 8 * mib);
  EXPECT_LT(after_holder.resident, before_holder.resident + 8 * mib);
}

using FewDescriptors = PairConformance;

TEST_P(FewDescriptors, Fails_AndWorksAgain) {
  belongs_to(Part::descriptor_limit);
  NodeOptions few = options();
  // UCX needs a larger reserve of descriptors.
  few.spare_descriptors = GetParam() == Way::ucx || GetParam() == Way::nixl ? 24 : 8;
  make(options(), few);
  std::vector<std::unique_ptr<Node>> holders;
  int opened = 0, refused = 0;
  for (int i = 0; i < 16; ++i) {
    holders.push_back(node());
    const auto result = receiver().open(*holders.back(), 1, 2'000);
    if (!result) {
      ++refused;
      EXPECT_FALSE(result.error().text.empty());
      continue;
    }
    ++opened;
    const TransferId id = begin(*holders.back(), receiver(), 1, {{mib, 1, 0, true}}, 2'000);
    const Seen seen = receiver().seen(id);
    // Some of several connections may exist.
    EXPECT_TRUE(seen.ok ? seen.right : seen.guards) << seen.text;
    if (!seen.ok) ++refused;
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(opened, 0);
  for (const auto& each : holders) receiver().peer_down(each->process());
  // Some libraries close their descriptors a little later.
  Seen seen;
  const Time deadline = monotonic_now() + 20s;
  for (std::uint64_t epoch = 2; !seen.ok && monotonic_now() < deadline; ++epoch) {
    open(epoch);
    seen = receiver().seen(begin(holder(), receiver(), epoch, {{mib, 1, 0, true}}, 2'000));
  }
  EXPECT_TRUE(seen.ok && seen.right) << seen.text;
}

using LowMemory = PairConformance;

TEST_P(LowMemory, Fails_AndWorksAgain) {
  belongs_to(Part::memory_limit);
  NodeOptions small = options();
  small.max_arena = 64 * mib;
  NodeOptions narrow = options();
  narrow.max_mapped = 70 * mib;
  make(small, narrow);
  open();
  const auto refused = holder().offer(next(), receiver(), 1, {{80 * mib, 1, 0, false}}, true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::resource_exhausted);
  EXPECT_EQ(holder().figures().offers, 0u);
  transfer(holder(), receiver(), 1, {{30 * mib, 1, 0, true}});
  // For the file of a second holder, the unused mapping of the first one is evicted.
  const auto other = node();
  ASSERT_TRUE(receiver().open(*other, 1));
  transfer(*other, receiver(), 1, {{30 * mib, 1, 0, true}});
  EXPECT_LE(receiver().figures().mapped, 70 * mib);
  transfer(holder(), receiver(), 1, {{30 * mib, 2, 0, true}});
}

INSTANTIATE_TEST_SUITE_P(Ways, Cancel, every_way, way_name);
INSTANTIATE_TEST_SUITE_P(Ways, Refused, every_way, way_name);
INSTANTIATE_TEST_SUITE_P(Ways, Death, between_processes, way_name);
INSTANTIATE_TEST_SUITE_P(Ways, Bounds, every_way, way_name);
INSTANTIATE_TEST_SUITE_P(Ways, Fabric, by_network, way_name);
// Device memory needs descriptors before any transfer.
INSTANTIATE_TEST_SUITE_P(Ways, FewDescriptors, with_descriptors, way_name);
INSTANTIATE_TEST_SUITE_P(Ways, LowMemory, testing::Values(Way::shm), way_name);

}  // namespace
}  // namespace mobula::internal::direct_test
