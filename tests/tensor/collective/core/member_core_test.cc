// A member that may begin a communicator, in cases that the simulated world of groups lacks:
// members of earlier releases, and libraries that never release memory.
#include "tensor/collective/core/member_core.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mobula::internal::collective {
namespace {

const Time start = Time::from_ns(1'000'000'000);

// Rank 0 of two; the test plays the other member.
struct Pair {
  Pair()
      : core({.rank = 0, .names = {"rank 0", "rank 1"}, .communication = Communication::useful}) {
    core.connected({.processes = {"a", "b"}, .hosts = {"host", "host"}, .no_communicator = {}});
  }
  void hear(ControlKind kind, const std::string& text = "") {
    ControlMessage message;
    message.kind = kind;
    message.text = text;
    core.on(start, 1, message, out);
  }
  // Both members reduce an equal amount on their GPUs; `library` is the version that the other
  // member announces.
  void meet(const std::string& library, std::uint64_t number = 1,
            const std::string& device = "GPU-1") {
    Operation own;
    own.kind = OperationKind::all_reduce;
    own.shape = {1 << 20};
    own.device = "GPU-0";
    own.library = "2.28.9";
    core.meet(start, own, {}, std::nullopt, out);
    ControlMessage message;
    message.number = number;
    message.operation = own;
    message.operation.device = device;
    message.operation.library = library;
    core.on(start, 1, message, out);
  }
  // Up to the first transfer over the communicator.
  void begin() {
    meet(said()->operation.library);
    core.begun(start, std::vector<std::byte>(128), out);
    core.turn_taken(start, std::nullopt, out);
    hear(ControlKind::turn);
    core.opened(start, std::nullopt, out);
    hear(ControlKind::opened);
    core.prepared(start, std::nullopt, out);
    core.turn_taken(start, std::nullopt, out);
    ASSERT_EQ(core.stage(), MemberCore::Stage::moving);
    ASSERT_EQ(core.way(), MemberCore::Way::device);
  }
  // Handshake message of a member of this release.
  static const ControlMessage* said() {
    static Pair other;
    if (other.out.empty()) other.meet("");
    return &std::get<SendControl>(other.out.front()).message;
  }
  std::ptrdiff_t count(ControlKind kind) const {
    return std::ranges::count_if(out, [kind](const MemberCommand& command) {
      const auto* const message = std::get_if<SendControl>(&command);
      return message != nullptr && message->message.kind == kind;
    });
  }

  MemberCore core;
  MemberCore::Commands out;
};

// Processes on one GPU take turns: only a group that names NCCL uses it there.
TEST(GroupMember, BeginsNoCommunicatorOnSharedGpu) {
  Pair pair;
  pair.meet(Pair::said()->operation.library, 1, "GPU-0");
  EXPECT_EQ(pair.core.way(), MemberCore::Way::plan);
  EXPECT_EQ(pair.core.no_communicator(),
            "nccl: rank 0 and rank 1 share GPU-0; Transport::nccl is for that, with NCCL 2.30");
}

// They would never report completion.
TEST(GroupMember, BeginsNoCommunicatorWithEarlierReleases) {
  Pair pair;
  pair.meet("2.28.9");
  EXPECT_EQ(pair.core.stage(), MemberCore::Stage::preparing);
  EXPECT_EQ(pair.core.way(), MemberCore::Way::plan);
  EXPECT_EQ(pair.core.no_communicator(),
            "nccl: the library of rank 1 is 2.28.9, that of rank 0 2.28.9 (agreed)");
}

TEST(GroupMember, OthersReportCompletion_IsDone) {
  Pair pair;
  pair.begin();
  pair.core.moved(start, std::nullopt, pair.out);
  EXPECT_EQ(pair.core.stage(), MemberCore::Stage::hearing);
  EXPECT_EQ(pair.core.missing(), MemberCore::Ranks{1});
  EXPECT_FALSE(pair.core.needs_turn());
  pair.hear(ControlKind::came);
  EXPECT_EQ(pair.core.stage(), MemberCore::Stage::idle);
  EXPECT_FALSE(pair.core.refused());
  EXPECT_TRUE(pair.core.has_communicator());
}

TEST(GroupMember, PeerReleasesCommunicator_UsesHostPath) {
  Pair pair;
  pair.begin();
  pair.core.moved(start, std::nullopt, pair.out);
  pair.hear(ControlKind::let_go, "rank 1: its library fails");
  EXPECT_EQ(pair.core.stage(), MemberCore::Stage::closing);
  EXPECT_EQ(pair.count(ControlKind::let_go), 1);
  pair.core.closed(start, std::nullopt, pair.out);
  EXPECT_EQ(pair.core.stage(), MemberCore::Stage::preparing);
  EXPECT_EQ(pair.core.way(), MemberCore::Way::plan);
  pair.core.prepared(start, std::nullopt, pair.out);
  pair.core.moved(start, std::nullopt, pair.out);
  EXPECT_FALSE(pair.core.refused());
  EXPECT_FALSE(pair.core.over());
  EXPECT_EQ(pair.core.no_communicator(), "nccl: rank 1: its library fails");
  // A later release message has no effect.
  pair.hear(ControlKind::let_go, "something else");
  pair.meet(Pair::said()->operation.library, 2);
  EXPECT_EQ(pair.core.way(), MemberCore::Way::plan);
  EXPECT_EQ(pair.core.no_communicator(), "nccl: rank 1: its library fails");
  EXPECT_EQ(pair.count(ControlKind::let_go), 1);
}

// The library could still write memory that another path would read.
TEST(GroupMember, LibraryNeverReleases_MemberIsBroken) {
  Pair pair;
  pair.begin();
  pair.core.moved(start, failure(ErrorCode::unavailable, "transfer failed"), pair.out);
  ASSERT_EQ(pair.core.stage(), MemberCore::Stage::closing);
  pair.core.closed(start, failure(ErrorCode::unavailable, "end communicator: no reply"), pair.out);
  ASSERT_TRUE(pair.core.refused());
  EXPECT_EQ(pair.core.refused()->kind, Refusal::Kind::broken);
  EXPECT_EQ(pair.core.refused()->ranks, MemberCore::Ranks{0});
  EXPECT_EQ(pair.core.refused()->text, "rank 0 failed: end communicator: no reply");
}

// The other member may have released its communicator in an operation with a third one.
TEST(GroupMember, RemembersCommunicatorOfPeerRequest) {
  Pair pair;
  pair.begin();
  pair.core.moved(start, std::nullopt, pair.out);
  pair.hear(ControlKind::came);
  Operation some;
  some.kind = OperationKind::send;
  some.shape = {1 << 20};
  some.device = "GPU-0";
  pair.core.send(start, 1, some, std::nullopt, pair.out);
  pair.hear(ControlKind::let_go, "rank 1: its library fails");
  EXPECT_EQ(pair.core.stage(), MemberCore::Stage::hearing);  // for the acceptance
  pair.hear(ControlKind::accept);
  EXPECT_EQ(pair.core.stage(), MemberCore::Stage::closing);
  pair.core.closed(start, std::nullopt, pair.out);
  EXPECT_EQ(pair.core.stage(), MemberCore::Stage::preparing);
  EXPECT_EQ(pair.core.way(), MemberCore::Way::plan);
}

}  // namespace
}  // namespace mobula::internal::collective
