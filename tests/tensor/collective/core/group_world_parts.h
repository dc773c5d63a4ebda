// Inner types of the simulated world of collective groups, for `group_world*.cc` only.
// Thread: owner.
#pragma once

#include "tensor/collective/core/group_world.h"

namespace mobula::internal::collective {

// Script of one operation of a group.
struct GroupWorld::Round {
  std::size_t number = 0;
  Operation operation;  // without fields of a single member
  std::optional<std::pair<std::uint32_t, std::uint32_t>> pair{};  // sender and receiver
  bool opens = false;       // opens the communicator of a group that has one from the start
  bool on_devices = false;  // operands are in device memory
  std::optional<std::uint32_t> odd{}, absent{}, cancelled{}, without_memory{}, kernel_fails{};
  bool fails_at_its_end = false;  // after its part is complete at the other members
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
  std::vector<std::deque<std::byte>> pipes;  // to each other member
  std::set<std::uint32_t> ended_wires;       // known ends of payload streams
  bool pumps = false;
  std::uint64_t claim = 0;
  std::string issued;  // on its device
  bool becomes_quiet = false;
  bool went_by_device = false;  // the current operation
  std::optional<Time> wakes;
  std::map<std::uint32_t, Time> last_word;  // to each other member
};

struct GroupWorld::Group {
  int index = 0;
  bool ends_are_seen_on_wires = false;  // as with TCP; shared memory does not report ends
  std::vector<std::unique_ptr<Seat>> seats;
  std::vector<Round> rounds;
  std::map<std::uint32_t, Time> culprits;
  std::set<std::string> why;
  std::map<std::string, std::set<std::uint32_t>> kernels;  // members that issued each kernel
  std::optional<std::uint32_t> without_library{}, cannot_open{};
  bool cannot_begin = false;

  std::uint32_t size() const { return static_cast<std::uint32_t>(seats.size()); }
};

struct GroupWorld::Process {
  int index = 0;
  ProcessId id;
  bool alive = true;
  Time stopped_until{};
  std::unique_ptr<transfer::TensorExchangeCore> exchange;
  std::string on_device;
  std::map<std::uint64_t, Seat*> claims;
  std::uint64_t last_claim = 0;
  struct Half {
    transfer::IssueStep issue;
    bool matched = false, cancelled = false;
  };
  std::map<transfer::OperationId, Half> halves;
  int pulls = 0;
  std::optional<Time> wakes;
};

}  // namespace mobula::internal::collective
