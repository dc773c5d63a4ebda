// Collective groups with random seeds and faults, and mutations that the checks must detect.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/coverage_mark.h"
#include "tensor/collective/core/group_world.h"

namespace mobula::internal::collective {
namespace {

struct Case {
  const char* name;
  GroupPlan plan;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const char* name, const auto& set) {
    GroupPlan plan;
    set(plan);
    all.push_back({name, plan});
  };
  add("Quiet", [](GroupPlan& p) { p.groups = 2; });
  add("Mismatches", [](GroupPlan& p) { p.mismatches = true; });
  add("Absences", [](GroupPlan& p) { p.absences = p.mismatches = true; });
  add("Cancels", [](GroupPlan& p) { p.cancels = true; });
  add("Leaves", [](GroupPlan& p) {
    p.leaves = p.mismatches = true;
    p.processes = 5;
  });
  add("Deaths", [](GroupPlan& p) {
    p.deaths = true;
    p.processes = 5;
  });
  add("NoMemory", [](GroupPlan& p) { p.no_memory = true; });
  add("Stops", [](GroupPlan& p) { p.stops = true; });
  add("Everything", [](GroupPlan& p) {
    p.mismatches = p.cancels = p.leaves = p.deaths = p.no_memory = true;
    p.groups = 2;
  });
  add("Devices", [](GroupPlan& p) {
    p.communication = Communication::always;
    p.groups = 3;
    p.transfers = true;
  });
  add("DevicesFaults", [](GroupPlan& p) {
    p.communication = Communication::always;
    p.groups = 3;
    p.transfers = p.mismatches = p.cancels = p.leaves = p.deaths = p.library_faults = true;
  });
  add("Begun", [](GroupPlan& p) {
    p.communication = Communication::useful;
    p.groups = 3;
    p.transfers = true;
  });
  add("BegunLibraries", [](GroupPlan& p) {
    p.communication = Communication::useful;
    p.groups = 3;
    p.transfers = p.library_faults = true;
  });
  add("BegunFaults", [](GroupPlan& p) {
    p.communication = Communication::useful;
    p.groups = 3;
    p.transfers = p.mismatches = p.cancels = p.leaves = p.deaths = p.no_memory = p.library_faults =
        true;
  });
  add("BegunPairs", [](GroupPlan& p) {
    p.communication = Communication::useful;
    p.processes = 5;
    p.rounds = 16;
    p.groups = 2;
    p.pairs = p.library_faults = true;
  });
  add("BegunEnds", [](GroupPlan& p) {
    p.communication = Communication::useful;
    p.rounds = 16;
    p.groups = 3;
    p.library_faults = p.deaths = p.cancels = p.no_memory = p.transfers = true;
  });
  add("BegunStops", [](GroupPlan& p) {
    p.communication = Communication::useful;
    p.groups = 2;
    p.stops = p.transfers = true;
  });
  return all;
}

// MOBULA_GROUP_SEEDS=N: number of histories of each kind.
std::uint64_t seeds() {
  const char* text = std::getenv("MOBULA_GROUP_SEEDS");
  return text == nullptr ? 100 : std::strtoull(text, nullptr, 10);
}

class Groups : public testing::TestWithParam<Case> {};

TEST_P(Groups, EndsAlikeAtAllMembers) {
  std::map<std::string, int> counts;
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    GroupWorld world(seed, GetParam().plan);
    ASSERT_EQ(world.run(), "") << GetParam().name << ", seed " << seed << "\n" << world.story();
    for (const auto& [what, count] : world.counts()) counts[what] += count;
  }
  for (const auto& [what, count] : counts) RecordProperty(what, count);
  const auto some = [&](const char* what) { EXPECT_GT(counts[what], 0) << what; };
  if (GetParam().plan.communication != Communication::always) some("done by plan");
  if (GetParam().plan.communication == Communication::never) some("done by words");
  if (GetParam().plan.communication != Communication::never) some("done by device");
  if (GetParam().plan.communication == Communication::useful && GetParam().plan.library_faults &&
      !GetParam().plan.leaves)
    some("done by plan at last");
  if (GetParam().plan.mismatches) some("mismatch");
  if (GetParam().plan.absences) some("timed out");
  if (GetParam().plan.cancels) some("cancelled");
  if (GetParam().plan.leaves) some("destroyed");
  if (GetParam().plan.deaths) some("broken");
}

INSTANTIATE_TEST_SUITE_P(Histories, Groups, testing::ValuesIn(cases()),
                         [](const auto& each) { return std::string(each.param.name); });

struct Mutated {
  const char* name;
  std::vector<std::string> where;  // histories that are searched
  GroupMutation mutation;
};

std::vector<Mutated> mutations() {
  std::vector<Mutated> all;
  const auto add = [&](const char* name, std::vector<std::string> where, const auto& set) {
    GroupMutation mutation;
    set(mutation);
    all.push_back({name, std::move(where), std::move(mutation)});
  };
  add("EndsAreNotSaid", {"Leaves"}, [](GroupMutation& m) {
    m.message = [](std::uint32_t, ControlMessage& message) {
      return message.kind != ControlKind::broken;
    };
    m.nothing_is_closed = true;
  });
  add("WhoNoticesIsNamed", {"Absences"}, [](GroupMutation& m) {
    m.message = [](std::uint32_t from, ControlMessage& message) {
      if (message.kind == ControlKind::broken) message.ranks = {from};
      return true;
    };
  });
  add("LaterEndsEndThisOne", {"Cancels"}, [](GroupMutation& m) {
    m.message = [](std::uint32_t, ControlMessage& message) {
      if (message.kind == ControlKind::broken) message.number = 0;
      return true;
    };
  });
  add("NothingIsClosed", {"Leaves"}, [](GroupMutation& m) { m.nothing_is_closed = true; });
  add("NobodyIsWaitedFor", {"Quiet"},
      [](GroupMutation& m) { m.believes_that_all_have_come = true; });
  add("WantsAreNotCompared", {"Mismatches"}, [](GroupMutation& m) {
    m.received = [](const Operation& own, ControlMessage& message) {
      if (message.kind != ControlKind::handshake) return;
      message.operation.kind = own.kind;
      message.operation.shape = own.shape;
    };
  });
  add("WiresEndLikeWords", {"Leaves"}, [](GroupMutation& m) { m.wires_end_like_words = true; });
  add("EachGroupHasItsOrderOfTurns", {"Devices"}, [](GroupMutation& m) {
    m.order = [](const std::string& process, int group) {
      std::string turned = process;
      for (char& each : turned) each = static_cast<char>(127 - each);
      return group % 2 == 0 ? process : turned;
    };
  });
  add("TurnsAreKept", {"Devices"}, [](GroupMutation& m) { m.keeps_turns = true; });
  add("TurnsGoBackBeforeItIsQuiet", {"DevicesFaults"},
      [](GroupMutation& m) { m.turns_back_before_quiet = true; });
  add("TurnsAreNotPassedOn", {"Devices"}, [](GroupMutation& m) {
    m.message = [](std::uint32_t, ControlMessage& message) {
      return message.kind != ControlKind::turn;
    };
  });
  add("FailedOpeningsAreNotSaid", {"BegunLibraries"}, [](GroupMutation& m) {
    m.message = [](std::uint32_t, ControlMessage& message) {
      return message.kind != ControlKind::opened || message.text.empty();
    };
  });
  add("FailedOpeningsAreSaidToBeOpen", {"BegunLibraries"}, [](GroupMutation& m) {
    m.message = [](std::uint32_t, ControlMessage& message) {
      if (message.kind == ControlKind::opened) message.text.clear();
      return true;
    };
  });
  add("LettingGoIsNotSaid", {"BegunLibraries"}, [](GroupMutation& m) {
    m.message = [](std::uint32_t, ControlMessage& message) {
      return message.kind != ControlKind::let_go;
    };
  });
  add("WhoLetsGoSaysThatItCame", {"BegunLibraries"}, [](GroupMutation& m) {
    m.message = [](std::uint32_t, ControlMessage& message) {
      if (message.kind == ControlKind::let_go) message.kind = ControlKind::came;
      return true;
    };
  });
  add("NobodyIsAskedWhatCame", {"BegunLibraries"},
      [](GroupMutation& m) { m.believes_that_all_came = true; });
  add("LettingGoIsHeardByThoseWhoTakePart", {"BegunPairs"},
      [](GroupMutation& m) { m.tells_nobody_else = true; });
  return all;
}

class GroupMutations : public testing::TestWithParam<Mutated> {};

TEST_P(GroupMutations, DetectsMutation) {
  for (const auto& each : cases()) {
    if (std::ranges::find(GetParam().where, each.name) == GetParam().where.end()) continue;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
      GroupWorld world(seed, each.plan, GetParam().mutation);
      const auto wrong = world.run();
      if (wrong.empty()) continue;
      RecordProperty("seen", wrong);
      std::printf("  %s: %s, seed %d: %s\n", GetParam().name, each.name, static_cast<int>(seed),
                  wrong.c_str());
      return;
    }
  }
  FAIL() << "no history shows it";
}

INSTANTIATE_TEST_SUITE_P(Faults, GroupMutations, testing::ValuesIn(mutations()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace mobula::internal::collective
