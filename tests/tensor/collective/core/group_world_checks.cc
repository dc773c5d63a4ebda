// Invariants of a simulated world of groups, computed from the script alone.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "tensor/collective/core/group_world_parts.h"

namespace mobula::internal::collective {
namespace {

using Numbers = std::vector<std::int32_t>;

std::int32_t note(std::size_t round, std::uint32_t rank, std::size_t index) {
  return static_cast<std::int32_t>((round * 31 + rank * 17 + index * 7) % 1009);
}

Numbers notes(std::size_t round, std::uint32_t rank, std::size_t count) {
  Numbers all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = note(round, rank, i);
  return all;
}

std::vector<std::byte> bytes_of(const Numbers& numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(std::int32_t));
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::size_t count_of(const Operation& operation) {
  std::size_t count = 1;
  for (const auto extent : operation.shape) count *= static_cast<std::size_t>(extent);
  return count;
}

}  // namespace

std::vector<std::byte> GroupWorld::input_of(const Group& group, const Round& round,
                                            const Operation& operation, std::uint32_t rank) const {
  if (round.opens || operation.kind == OperationKind::barrier) return {};
  if (round.pair)
    return round.pair->first == rank ? bytes_of(notes(round.number, rank, count_of(operation)))
                                     : std::vector<std::byte>{};
  const bool is_root = operation.root == rank;
  std::size_t parts = 1;
  if (operation.kind == OperationKind::all_to_all || operation.kind == OperationKind::scatter)
    parts = group.size();
  if (operation.kind == OperationKind::broadcast && !is_root) return {};
  if (operation.kind == OperationKind::scatter && !is_root) return {};
  return bytes_of(notes(round.number, rank, parts * count_of(operation)));
}

// By rank: the expected output of a member.
std::vector<std::byte> GroupWorld::output_of(const Group& group, const Round& round,
                                             std::uint32_t rank) const {
  const Operation& operation = round.operation;
  const std::uint32_t n = group.size();
  const std::size_t count = count_of(operation);
  const auto sum = [&](std::size_t index) {
    std::int32_t total = 0;
    for (std::uint32_t each = 0; each < n; ++each) total += note(round.number, each, index);
    return total;
  };
  Numbers all;
  switch (operation.kind) {
    case OperationKind::barrier: break;
    case OperationKind::broadcast: all = notes(round.number, operation.root, count); break;
    case OperationKind::reduce:
    case OperationKind::all_reduce:
      for (std::size_t i = 0;
           i < count && (operation.kind == OperationKind::all_reduce || rank == operation.root);
           ++i)
        all.push_back(sum(i));
      break;
    case OperationKind::gather:
    case OperationKind::all_gather:
      for (std::uint32_t each = 0;
           each < n && (operation.kind == OperationKind::all_gather || rank == operation.root);
           ++each) {
        const auto part = notes(round.number, each, count);
        all.insert(all.end(), part.begin(), part.end());
      }
      break;
    case OperationKind::scatter:
      for (std::size_t i = 0; i < count; ++i)
        all.push_back(note(round.number, operation.root, rank * count + i));
      break;
    case OperationKind::reduce_scatter:
      for (std::size_t i = 0; i < count / n; ++i) all.push_back(sum(rank * (count / n) + i));
      break;
    case OperationKind::all_to_all:
      for (std::uint32_t each = 0; each < n; ++each) {
        for (std::size_t i = 0; i < count; ++i)
          all.push_back(note(round.number, each, rank * count + i));
      }
      break;
    case OperationKind::send:
    case OperationKind::receive:
      if (round.pair->second == rank) all = notes(round.number, round.pair->first, count);
      break;
  }
  return bytes_of(all);
}

// ---- one member ---------------------------------------------------------------------------------

void GroupWorld::check_outcome(Seat& seat) {
  const Group& group = *seat.group;
  const Round& round = group.rounds[seat.round];
  const Outcome& outcome = seat.outcomes[seat.round];
  const std::string who =
      fmt::format("group {} rank {} operation {}", group.index, seat.rank, seat.round);
  if (!outcome.refused) {
    if (round.odd)
      return violation(fmt::format("{} is done, though rank {} wants another", who, *round.odd));
    if (round.opens) return;
    if (seat.core->way() == MemberCore::Way::device) {
      if (round.kernel_fails == seat.rank && round.operation.bytes() > 0)
        violation(who + " is done, and its library has failed");
      return;
    }
    if (seat.core->way() == MemberCore::Way::plan) {
      // The remains of a reduction at a member without output are unspecified.
      const auto right = output_of(group, round, seat.rank);
      if (!right.empty() && seat.output != right)
        violation(who + " gives other bytes than it should");
      return;
    }
    for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
      if (round.operation.kind == OperationKind::broadcast && rank != round.operation.root)
        continue;
      if (seat.core->said()[rank].operand != input_of(group, round, round.operation, rank))
        return violation(who + " gets other bytes with the words");
    }
    return;
  }
  const auto& why = *outcome.refused;
  if (why.kind == Refusal::Kind::invalid)
    return violation(who + " is refused as invalid: " + why.text);
  if (why.kind == Refusal::Kind::mismatch) {
    if (!round.odd) return violation(who + " is a mismatch, and all want the same: " + why.text);
    // The majority is right; of two members, the first one.
    const std::uint32_t named = group.size() == 2 ? 1 : *round.odd;
    if (why.ranks != std::vector<std::uint32_t>{named})
      violation(fmt::format("{} names {} for a mismatch, not {}", who, why.ranks, named));
    if (seat.core->over() && group.culprits.empty())
      violation(who + " was a mismatch, and the group is broken");
    return;
  }
  // A stopped process may have a device turn that others need.
  if (plan_.stops && plan_.communication != Communication::never) return;
  if (group.culprits.empty())
    return violation(fmt::format("{} fails, and nothing is wrong: {}", who, why.text));
  Time first = now_;
  for (const auto& [rank, when] : group.culprits) first = std::min(first, when);
  if (plan_.stops) return;
  const bool own_blame = group.culprits.contains(seat.rank);
  if (why.ranks.empty()) violation(who + " fails, and names no rank");
  for (const auto rank : why.ranks) {
    const auto at = group.culprits.find(rank);
    if (at == group.culprits.end() || at->second > now_)
      violation(fmt::format("{} names rank {}, who is not at fault: {}", who, rank, why.text));
  }
  if (why.kind == Refusal::Kind::destroyed && !seat.left)
    violation(who + " says that the group was destroyed, and it was not here");
  if (why.kind == Refusal::Kind::cancelled && !own_blame)
    violation(who + " says that it was cancelled, and was not");
  if (!plan_.absences && now_ - std::max(first, outcome.began) > 3s)
    violation(who + " hears of an end too late");
}

// ---- all members --------------------------------------------------------------------------------

std::string GroupWorld::check_round(const Group& group, std::size_t number) const {
  const Round& round = group.rounds[number];
  bool done = false, failed = false;
  for (const auto& seat : group.seats) {
    const Outcome& outcome = seat->outcomes[number];
    if (!outcome.ended) continue;
    done = done || !outcome.refused;
    failed = failed || (outcome.refused && outcome.refused->kind != Refusal::Kind::mismatch);
  }
  // A member that ended may have delivered a result to some members before.
  std::set<std::string> ways;
  for (const auto& seat : group.seats) {
    const Outcome& outcome = seat->outcomes[number];
    if (outcome.ended && !outcome.refused) ways.insert(outcome.way);
  }
  if (ways.size() > 1)
    return fmt::format("group {}: operation {} is {}", group.index, number,
                       fmt::join(ways, ", and elsewhere "));
  if (round.odd && done)
    return fmt::format("group {}: operation {} is done by some, and a mismatch", group.index,
                       number);
  if (!done || !failed || round.pair || round.opens) return {};
  // A dead member may have been needed to the end. A member that gave up a later operation was not.
  if (group.why.contains("died") || group.why.contains("stopped") ||
      group.why.contains("library fails"))
    return {};
  for (const auto& [rank, when] : group.culprits) {
    const Outcome& outcome = group.seats[rank]->outcomes[number];
    if (!outcome.ended || outcome.refused) return {};
  }
  return fmt::format("group {}: operation {} is not done at all, and those at fault had done it",
                     group.index, number);
}

std::string GroupWorld::at_the_end() const {
  for (const auto& process : processes_) {
    if (!process->alive) continue;
    if (process->pulls != 0)
      return fmt::format("a transfer to process {} never ends", process->index);
    if (!process->on_device.empty())
      return fmt::format("{} never leaves the device of process {}", process->on_device,
                         process->index);
    if (!process->exchange->is_idle())
      return fmt::format("turns or transfers of process {} are left", process->index);
  }
  for (const auto& group : groups_) {
    for (const auto& seat : group->seats) {
      if (!processes_[static_cast<std::size_t>(seat->process)]->alive) continue;
      const std::string who = fmt::format("group {} rank {}", group->index, seat->rank);
      if (seat->running) return fmt::format("{}: operation {} never ends", who, seat->round);
      if (seat->core->over().has_value() != (seat->closes == 1))
        return who + ": its connections are not closed, or twice, or too early";
      const bool waits_for_others = plan_.stops && plan_.communication != Communication::never;
      if (seat->core->over() && group->culprits.empty() && !waits_for_others)
        return who + ": it is over, and nothing is wrong";
      if (!seat->core->over() && group->why.contains("left"))
        return who + ": it is not over, and the group was destroyed at a member";
    }
    for (std::size_t round = 0; round < group->rounds.size(); ++round) {
      if (auto wrong = check_round(*group, round); !wrong.empty()) return wrong;
    }
  }
  return {};
}

}  // namespace mobula::internal::collective
