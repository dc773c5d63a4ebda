// Tensor exchange with random seeds and faults, and mutations that the checks must detect.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tensor/exchange/core/region_world.h"

namespace mobula::internal::transfer {
namespace {

const std::vector<DirectPath> one_sided{DirectPath::shm};
const std::vector<DirectPath> two_sided{DirectPath::nccl};
const std::vector<DirectPath> several{DirectPath::nccl, DirectPath::tcp, DirectPath::store};

// Device turns for work of several processes other than transfers.
class Claims : public testing::Test {
 protected:
  std::vector<std::uint64_t> taken() {
    std::vector<std::uint64_t> claims;
    for (const auto& each : out_) {
      if (const auto* turn = std::get_if<TurnTaken>(&each)) claims.push_back(turn->claim);
    }
    out_.clear();
    return claims;
  }
  void claim(std::uint32_t device_ordinal, std::uint64_t claim) {
    exchange_.claim_turn(Time(), device_ordinal, claim, out_);
  }
  void give_back(std::uint64_t claim) { exchange_.return_turn(Time(), claim, out_); }

  using Numbers = std::vector<std::uint64_t>;
  TensorExchangeCore exchange_{ProcessId::derived(ProcessId(), "claims", 1)};
  std::vector<RegionCommand> out_;
};

TEST_F(Claims, Turns_FollowQueueOrder) {
  claim(0, 7);
  EXPECT_EQ(taken(), Numbers{7});
  claim(0, 8);
  claim(0, 9);
  claim(0, 8);  // already queued
  EXPECT_EQ(taken(), Numbers{});
  give_back(7);
  EXPECT_EQ(taken(), Numbers{8});
  give_back(8);
  EXPECT_EQ(taken(), Numbers{9});
  give_back(9);
  EXPECT_EQ(taken(), Numbers{});
  EXPECT_TRUE(exchange_.is_idle());
}

TEST_F(Claims, OtherDevice_DoesNotWait) {
  claim(0, 1);
  claim(1, 2);
  EXPECT_EQ(taken(), (Numbers{1, 2}));
}

TEST_F(Claims, SkipsClaimThatLeftQueue) {
  claim(0, 1);
  claim(0, 2);
  claim(0, 3);
  give_back(2);
  give_back(2);
  EXPECT_EQ(taken(), Numbers{1});
  EXPECT_FALSE(exchange_.is_idle());
  give_back(1);
  EXPECT_EQ(taken(), Numbers{3});
  give_back(3);
  give_back(12);  // unknown claim
  EXPECT_EQ(taken(), Numbers{});
  EXPECT_TRUE(exchange_.is_idle());
}

struct Case {
  const char* name;
  RegionPlan plan;
};

RegionPlan plan_of(Pattern pattern, int processes, int objects, std::vector<DirectPath> paths) {
  RegionPlan plan;
  plan.pattern = pattern;
  plan.processes = processes;
  plan.objects = objects;
  plan.paths = std::move(paths);
  return plan;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const struct {
    const char* name;
    Pattern pattern;
    int processes, objects;
  } shapes[] = {{"ring", Pattern::ring, 8, 16},
                {"all_to_all", Pattern::all_to_all, 5, 5},
                {"opposite", Pattern::opposite, 2, 8},
                {"broadcast", Pattern::broadcast, 8, 2},
                {"random", Pattern::random, 6, 12}};
  static std::vector<std::string> names;
  names.reserve(128);
  const auto add = [&](std::string name, RegionPlan plan) {
    names.push_back(std::move(name));
    all.push_back({names.back().c_str(), std::move(plan)});
  };
  for (const auto& shape : shapes) {
    for (const bool two : {false, true}) {
      const std::string name = std::string(shape.name) + (two ? "_two_sided" : "_one_sided");
      const auto plan =
          plan_of(shape.pattern, shape.processes, shape.objects, two ? two_sided : one_sided);
      add(name, plan);
      auto worse = plan;
      worse.paths =
          two ? several : std::vector{DirectPath::shm, DirectPath::tcp, DirectPath::store};
      worse.crashes = worse.stops = worse.link_breaks = worse.transport_faults = worse.impatient =
          true;
      add(name + "_faults", worse);
    }
  }
  for (const auto& shape : shapes) {
    auto parts = plan_of(shape.pattern, shape.processes, shape.objects,
                         {DirectPath::tcp, DirectPath::store});
    parts.parts = true;
    add(std::string(shape.name) + "_parts", parts);
    parts.crashes = parts.stops = parts.link_breaks = parts.transport_faults = parts.impatient =
        true;
    add(std::string(shape.name) + "_parts_faults", parts);
    parts.max_receive_bytes = 200 << 10;
    add(std::string(shape.name) + "_parts_little_room_faults", parts);
  }
  for (const auto& shape : shapes) {
    auto idles = plan_of(shape.pattern, shape.processes, shape.objects, {DirectPath::nccl});
    idles.idles = true;
    add(std::string(shape.name) + "_idles_two_sided", idles);
    idles.paths = {DirectPath::tcp, DirectPath::store};
    idles.parts = true;
    add(std::string(shape.name) + "_idles", idles);
    idles.paths = several;
    idles.parts = false;
    idles.crashes = idles.stops = idles.link_breaks = idles.transport_faults = idles.impatient =
        true;
    add(std::string(shape.name) + "_idles_faults", idles);
  }
  auto tight = plan_of(Pattern::random, 6, 16, several);
  tight.max_receive_bytes = 200 << 10;
  add("little_room", tight);
  tight.crashes = tight.impatient = true;
  add("little_room_faults", tight);
  auto crashes = plan_of(Pattern::random, 8, 16, two_sided);
  crashes.crashes = true;
  add("crashes", crashes);
  auto links = plan_of(Pattern::all_to_all, 5, 5, several);
  links.link_breaks = true;
  add("link_breaks", links);
  links = plan_of(Pattern::broadcast, 8, 2, {DirectPath::tcp});
  links.parts = links.link_breaks = true;
  add("link_breaks_parts", links);
  auto stops = plan_of(Pattern::all_to_all, 4, 4, two_sided);
  stops.stops = true;
  add("stops", stops);
  auto devices = plan_of(Pattern::all_to_all, 5, 10, two_sided);
  devices.devices = 3;
  add("several_devices", devices);
  devices.pattern = Pattern::random;
  devices.crashes = devices.stops = devices.link_breaks = devices.transport_faults = true;
  add("several_devices_faults", devices);
  auto broken = plan_of(Pattern::random, 4, 16, several);
  broken.transport_faults = true;
  add("transport_faults", broken);
  return all;
}

class RegionExchangeTest : public testing::TestWithParam<Case> {};

// MOBULA_REGION_SEEDS=N: number of histories of each kind. The default detects every mutation.
std::uint64_t seeds() {
  const char* text = std::getenv("MOBULA_REGION_SEEDS");
  return text == nullptr ? 20 : std::strtoull(text, nullptr, 10);
}

TEST_P(RegionExchangeTest, DrainsAndFreesEverything) {
  std::uint64_t partings = 0, again = 0;
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    RegionWorld world(seed, GetParam().plan);
    ASSERT_EQ(world.run(), "") << GetParam().name << ", seed " << seed << "\n" << world.story();
    partings += world.partings();
    again += world.partings_again();
  }
  EXPECT_EQ(partings > 0, GetParam().plan.idles);
  if (GetParam().plan.idles && GetParam().plan.pattern == Pattern::random) {
    EXPECT_GT(again, 0u);
  }
  RecordProperty("partings", static_cast<int>(partings));
  RecordProperty("partings_again", static_cast<int>(again));
}

INSTANTIATE_TEST_SUITE_P(Regions, RegionExchangeTest, testing::ValuesIn(cases()),
                         [](const auto& each) { return std::string(each.param.name); });

// Many readers of one large object get its chunks from each other: the producer sends each chunk
// only a few times.
TEST(RegionBroadcast, ReadersBecomeHolders_ProducerSendsFew) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto plan = plan_of(Pattern::broadcast, 16, 1, one_sided);
    plan.parts = true;
    RegionWorld world(seed, plan);
    ASSERT_EQ(world.run(), "") << world.story();
    EXPECT_EQ(world.copies(), 15u * 5) << "of five parts";
    EXPECT_LE(world.served().at(ProcessId::of(1)), 8u * (300 << 10)) << "seed " << seed;
  }
}

template <class Message>
bool swallow(ProcessId, RegionCommand& command) {
  const auto* send = std::get_if<SendRegions>(&command);
  return send == nullptr || !std::holds_alternative<Message>(send->message);
}

struct Mutated {
  const char* name;
  RegionMutation mutation;
  bool of_parts = false;
  bool of_idles = false;
};

std::vector<Mutated> mutations() {
  std::vector<Mutated> all;
  bool idles = false;
  const auto add = [&](const char* name, const auto& set, bool of_parts = false) {
    RegionMutation mutation;
    set(mutation);
    all.push_back({name, std::move(mutation), of_parts, idles});
  };
  add("LeavesBeforeItIsQuiet", [](RegionMutation& m) { m.leaves_before_quiet = true; });
  add("TurnsAreOfPullsNotOfDevices", [](RegionMutation& m) { m.lanes_by_pull = true; });
  add("EverybodyIsTheLower",
      [](RegionMutation& m) { m.self = [](ProcessId) { return ProcessId(); }; });
  add("DeathsAreNotHeardOf", [](RegionMutation& m) { m.peers_do_not_hear_of_deaths = true; });
  add("RoomWithoutBound", [](RegionMutation& m) {
    m.options = [](RegionOptions& options) { options.max_receive_bytes = std::uint64_t{1} << 40; };
  });
  add("CancelsAreForgotten", [](RegionMutation& m) {
    m.command = [](ProcessId, RegionCommand& command) {
      return !std::holds_alternative<Cancel>(command);
    };
  });
  add("TakenIsNotSaid", [](RegionMutation& m) { m.command = swallow<PullTensorComplete>; });
  add("LeftIsNotSaid", [](RegionMutation& m) { m.command = swallow<PullTensorCancelled>; });
  add(
      "CopiesGoWhileTheyAreGiven", [](RegionMutation& m) { m.copies_go_while_given = true; }, true);
  add(
      "CopiesAreNotRetired", [](RegionMutation& m) { m.copies_are_not_retired = true; }, true);
  add(
      "AnotherPartIsGiven",
      [](RegionMutation& m) {
        m.command = [](ProcessId, RegionCommand& command) {
          if (auto* made = std::get_if<OfferTensor>(&command); made != nullptr && made->part > 1)
            made->part = 1;
          return true;
        };
      },
      true);
  add(
      "WhatIsNotThereIsOffered",
      [](RegionMutation& m) {
        m.command = [](ProcessId, RegionCommand& command) {
          if (auto* made = std::get_if<OfferTensor>(&command); made != nullptr && made->part > 0)
            made->part += 1;
          return true;
        };
      },
      true);
  add("EpochsAreNotSaid", [](RegionMutation& m) {
    m.command = [](ProcessId, RegionCommand& command) {
      if (auto* half = std::get_if<IssueStep>(&command)) half->epoch = 0;
      return true;
    };
  });
  idles = true;
  add("PartedIsNotSaid", [](RegionMutation& m) { m.command = swallow<CloseConnectionReply>; });
  add("NobodyWaitsForTheOtherToPart", [](RegionMutation& m) { m.parts_without_an_answer = true; });
  add("ClosedConnectionsAreNotMadeAgain", [](RegionMutation& m) {
    m.command = [](ProcessId, RegionCommand& command) {
      const auto* part = std::get_if<Part>(&command);
      return part == nullptr || !part->again;
    };
  });
  add("EpochsOfWhatIdledAreNotSaid", [](RegionMutation& m) {
    m.command = [](ProcessId, RegionCommand& command) {
      auto* send = std::get_if<SendRegions>(&command);
      if (send == nullptr) return true;
      if (auto* ready = std::get_if<PullTensorReply>(&send->message)) ready->epoch = 0;
      if (auto* step = std::get_if<TwoSidedStep>(&send->message)) step->epoch = 0;
      return true;
    };
  });
  return all;
}

class RegionMutationTest : public testing::TestWithParam<Mutated> {};

TEST_P(RegionMutationTest, DetectsMutation) {
  // A mutation shows in histories of some kinds, there mostly in the first ones.
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    for (const auto& each : cases()) {
      if (GetParam().of_parts && !each.plan.parts) continue;
      if (GetParam().of_idles && (!each.plan.idles || each.plan.crashes)) continue;
      RegionWorld world(seed, each.plan, GetParam().mutation);
      if (!world.run().empty()) return;
    }
  }
  FAIL() << "no history shows it";
}

INSTANTIATE_TEST_SUITE_P(Regions, RegionMutationTest, testing::ValuesIn(mutations()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace mobula::internal::transfer
