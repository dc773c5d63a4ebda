// The parts of a simulated world of collective groups. Of group_world*.cc alone.
#pragma once

#include "collective/core/group_world.h"

namespace mobula::internal::collective {

// What the script says of one operation of a group.
struct GroupWorld::Round {
  std::size_t number = 0;
  Operation operation;  // without what is of one member alone
  std::optional<std::pair<std::uint32_t, std::uint32_t>> pair{};  // who sends to whom
  bool opens = false;      // the communicator of a group that has one from the start
  bool on_devices = false;  // operands lie there
  std::optional<std::uint32_t> odd{}, absent{}, cancelled{}, without_memory{}, kernel_fails{};
  bool fails_at_its_end = false;  // when it has done its part at the others
};

struct GroupWorld::Outcome {
  bool begun = false;
  bool ended = false;
  std::optional<Refusal> refused{};
  Time began{}, at{};
  std::string way{};
};

// One member.
struct GroupWorld::Seat {
  Group* group = nullptr;
  std::uint32_t rank = 0;
  int process = 0;
  std::unique_ptr<MemberCore> core;
  std::vector<Outcome> outcomes;  // by round
  std::size_t round = 0;
  bool running = false;
  bool left = false;
  int closes = 0;

  MemberCore::Stage seen = MemberCore::Stage::idle;
  std::vector<std::byte> input, output, scratch;
  Plan plan;
  std::optional<Progress> progress;
  std::vector<std::deque<std::byte>> pipes;  // to each other
  std::set<std::uint32_t> ended_wires;       // that it knows of
  bool pumps = false;
  std::uint64_t claim = 0;
  std::string issued;  // on its device
  bool becomes_quiet = false;
  bool went_by_device = false;  // what is under way
  std::optional<Time> wakes;
  std::map<std::uint32_t, Time> last_word;  // to each other
};

struct GroupWorld::Group {
  int index = 0;
  bool ends_are_seen_on_wires = false;  // as TCP's are, and those of shared memory are not
  std::vector<std::unique_ptr<Seat>> seats;
  std::vector<Round> rounds;
  std::map<std::uint32_t, Time> culprits;
  std::set<std::string> why;
  std::map<std::string, std::set<std::uint32_t>> kernels;  // who has issued them
  std::optional<std::uint32_t> without_library{}, cannot_open{};
  bool cannot_begin = false;

  std::uint32_t size() const { return static_cast<std::uint32_t>(seats.size()); }
};

struct GroupWorld::Process {
  int index = 0;
  ProcessId id;
  bool alive = true;
  Time stopped_until{};
  std::unique_ptr<transfer::RegionExchange> exchange;
  std::string on_device;
  std::map<std::uint64_t, Seat*> claims;
  std::uint64_t last_claim = 0;
  struct Half {
    transfer::Issue issue;
    bool matched = false, cancelled = false;
  };
  std::map<transfer::OperationId, Half> halves;
  int pulls = 0;
  std::optional<Time> wakes;
};

}  // namespace mobula::internal::collective
