// Devices of a simulated world of groups: turns, communicators, and the transfers that share them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tensor/collective/core/group_world_parts.h"

namespace mobula::internal::collective {

using transfer::RegionCommand;

// ---- turns --------------------------------------------------------------------------------------

void GroupWorld::claim(Seat& seat) {
  auto& process = *processes_[static_cast<std::size_t>(seat.process)];
  seat.claim = ++process.last_claim;
  process.claims[seat.claim] = &seat;
  std::vector<RegionCommand> out;
  process.exchange->claim_turn(now_, 0, seat.claim, out);
  act(seat.process, std::move(out));
}

void GroupWorld::return_turn_of_device(Seat& seat) {
  if (seat.claim == 0 || mutation_.keeps_turns) return;
  auto& process = *processes_[static_cast<std::size_t>(seat.process)];
  process.claims.erase(seat.claim);
  std::vector<RegionCommand> out;
  process.exchange->return_turn(now_, std::exchange(seat.claim, 0), out);
  act(seat.process, std::move(out));
}

void GroupWorld::occupy(int index, const std::string& by) {
  auto& process = *processes_[static_cast<std::size_t>(index)];
  if (!process.on_device.empty())
    violation(fmt::format("on the device of process {} goes {}, and then {}", index,
                          process.on_device, by));
  process.on_device = by;
}

void GroupWorld::leave_device(int index, const std::string& by) {
  auto& process = *processes_[static_cast<std::size_t>(index)];
  if (process.on_device == by) process.on_device.clear();
}

// ---- communicators ------------------------------------------------------------------------------

// Continues when all participants have issued the same operation; one alone waits forever.
void GroupWorld::issue(Seat& seat, bool opens) {
  Group& group = *seat.group;
  const Round& round = group.rounds[seat.round];
  // A communicator of the group begins while members are still arriving.
  if (!round.opens)
    expect_all_there(seat, opens ? "opens its communicator" : "issues its operation");
  seat.issued = opens ? fmt::format("group {} opens", group.index)
                      : fmt::format("group {} operation {}", group.index, seat.round);
  tell(seat.process,
       fmt::format("group {} rank {} issues {}", group.index, seat.rank, seat.issued));
  occupy(seat.process, seat.issued);
  if (opens && seat.core->beginning().size() != 128)
    violation("a communicator is begun with nothing");
  const bool fails = opens ? group.cannot_open == seat.rank : round.kernel_fails == seat.rank;
  if (fails && (opens || !round.fails_at_its_end)) {
    return at_process(seat.process, 0ms, 20ms, [this, &seat, opens] {
      if (seat.issued.empty()) return;
      if (!opens || plan_.communication == Communication::always)
        blame(seat.group->index, seat.rank, "library fails");
      step(seat, [&](MemberCore& core, Commands& out) {
        const Failure why = failure(ErrorCode::unavailable, "the library fails");
        if (opens) core.opened(now_, why, out);
        if (!opens) core.moved(now_, why, out);
      });
    });
  }
  auto& kernel = group.kernels[seat.issued];
  kernel.insert(seat.rank);
  const std::size_t all = round.pair && !opens ? 2 : group.size();
  if (kernel.size() < all) return;
  for (const auto rank : kernel) {
    Seat* const each = group.seats[rank].get();
    at_process(each->process, 0ms, 5ms, [this, each, what = seat.issued, opens] {
      if (each->issued != what || each->becomes_quiet) return;
      each->issued.clear();
      leave_device(each->process, what);
      step(*each, [&](MemberCore& core, Commands& out) {
        if (opens) return core.opened(now_, std::nullopt, out);
        if (each->group->rounds[each->round].kernel_fails != each->rank)
          return core.moved(now_, std::nullopt, out);
        if (plan_.communication == Communication::always)
          blame(each->group->index, each->rank, "library fails");
        core.moved(now_, failure(ErrorCode::unavailable, "the library fails at last"), out);
      });
      if (mutation_.believes_that_all_came && !opens && each->running) believe_that_all_came(*each);
    });
  }
}

// The library releases the device some time after the request.
void GroupWorld::be_quiet(Seat& seat, std::function<void()> then) {
  seat.becomes_quiet = true;
  at_process(seat.process, 0ms, 50ms, [this, &seat, then = std::move(then)] {
    seat.becomes_quiet = false;
    leave_device(seat.process, std::exchange(seat.issued, {}));
    then();
  });
}

// ---- transfers ----------------------------------------------------------------------------------

void GroupWorld::add_transfers() {
  Random work = random_.fork("transfers");
  for (int i = 0; i < 3 * plan_.processes; ++i) {
    const auto object = ObjectId::of(static_cast<unsigned>(100 + i));
    const auto from = static_cast<int>(work.below(processes_.size()));
    const auto to =
        (from + 1 + static_cast<int>(work.below(processes_.size() - 1))) % plan_.processes;
    const std::uint64_t bytes = work.below(200'000'000);  // several steps
    at_process(from, 0ms, 0ms, [this, from, object, bytes] {
      std::vector<RegionCommand> out;
      processes_[static_cast<std::size_t>(from)]->exchange->register_tensor(now_, object, bytes, 0,
                                                                            out);
      act(from, std::move(out));
    });
    at_process(to, 1ms, 60ms, [this, from, to, object, bytes] {
      auto& process = *processes_[static_cast<std::size_t>(to)];
      std::vector<RegionCommand> out;
      transfer::TensorRequest request;
      request.object = object;
      request.size_bytes = bytes;
      request.holders = {processes_[static_cast<std::size_t>(from)]->id};
      request.paths = {DirectPath::nccl};
      if (process.exchange->pull(now_, {request}, true, out)) ++process.pulls;
      act(to, std::move(out));
    });
  }
}

void GroupWorld::act(int index, std::vector<RegionCommand> commands) {
  auto& process = *processes_[static_cast<std::size_t>(index)];
  const auto tell_exchange = [this, index](Duration high, auto what) {
    at_process(index, 0ms, high, [this, index, what] {
      std::vector<RegionCommand> out;
      what(*processes_[static_cast<std::size_t>(index)]->exchange, out);
      act(index, std::move(out));
    });
  };
  for (auto& command : commands) {
    if (const auto* turn = std::get_if<transfer::TurnTaken>(&command)) {
      Seat* const seat =
          process.claims.contains(turn->claim) ? process.claims.at(turn->claim) : nullptr;
      at_process(index, 0ms, 1ms, [this, seat, claim = turn->claim] {
        if (seat == nullptr || seat->claim != claim) return;
        step(*seat,
             [&](MemberCore& core, Commands& out) { core.turn_taken(now_, std::nullopt, out); });
      });
    } else if (const auto* send = std::get_if<transfer::SendRegions>(&command)) {
      const int to = static_cast<int>(send->to.bits().low) - 1;
      Time& last = last_arrival_[{index, to}];
      last = std::max(last, now_ + times_.between(0ms, 3ms));
      at(last, [this, to, from = process.id, message = send->message] {
        at_process(to, 0ms, 0ms, [this, to, from, message] {
          std::vector<RegionCommand> out;
          processes_[static_cast<std::size_t>(to)]->exchange->on(now_, from, message, out);
          act(to, std::move(out));
        });
      });
    } else if (const auto* made = std::get_if<transfer::OfferTensor>(&command)) {
      tell_exchange(1ms, [this, operation = made->operation](auto& exchange, auto& out) {
        exchange.exported(now_, operation, std::string("here"), out);
      });
    } else if (const auto* back = std::get_if<transfer::WithdrawOffer>(&command)) {
      tell_exchange(1ms, [this, operation = back->operation](auto& exchange, auto& out) {
        exchange.ended(now_, operation, std::nullopt, out);
      });
    } else if (const auto* half = std::get_if<transfer::IssueStep>(&command)) {
      issue_transfer(index, *half);
    } else if (const auto* stop = std::get_if<transfer::Cancel>(&command)) {
      const auto at = process.halves.find(stop->operation);
      if (at == process.halves.end()) continue;
      at->second.cancelled = true;
      at_process(index, 0ms, 20ms, [this, index, operation = stop->operation] {
        auto& again = *processes_[static_cast<std::size_t>(index)];
        again.halves.erase(operation);
        leave_device(index, fmt::format("transfer {}", operation));
        std::vector<RegionCommand> out;
        again.exchange->ended(now_, operation, failure(ErrorCode::cancelled, "cancelled"), out);
        act(index, std::move(out));
      });
    } else if (const auto* resolve = std::get_if<transfer::ResolveHolder>(&command)) {
      tell_exchange(1ms, [this, object = resolve->object](auto& exchange, auto& out) {
        exchange.located(now_, object,
                         transfer::RegionsLocated{.holders = {}, .in_store = false, .lost = true},
                         out);
      });
    } else if (const auto* ended = std::get_if<transfer::PullEnded>(&command)) {
      --process.pulls;
      const bool came = std::holds_alternative<transfer::RegionsHere>(ended->outcome);
      ++counts_[came ? "transfers" : "transfers that failed"];
      if (!came && !plan_.deaths && !plan_.stops)
        violation("a transfer fails without an injected fault: " +
                  std::get<Failure>(ended->outcome).text);
    }
  }
  tick_exchange(index);
}

void GroupWorld::issue_transfer(int index, const transfer::IssueStep& issue) {
  auto& process = *processes_[static_cast<std::size_t>(index)];
  occupy(index, fmt::format("transfer {}", issue.operation));
  process.halves[issue.operation] = {.issue = issue};
  auto& peer = *processes_[static_cast<std::size_t>(issue.peer.bits().low) - 1];
  if (!peer.alive) return;
  for (auto& [number, theirs] : peer.halves) {
    if (theirs.matched || theirs.cancelled || theirs.issue.peer != process.id ||
        (theirs.issue.pull == 0) == (issue.pull == 0))
      continue;
    if (theirs.issue.epoch != issue.epoch || theirs.issue.opens != issue.opens ||
        theirs.issue.object != issue.object)
      continue;
    theirs.matched = process.halves[issue.operation].matched = true;
    const auto end = [this](int which, transfer::OperationId operation) {
      at_process(which, 0ms, 5ms, [this, which, operation] {
        auto& again = *processes_[static_cast<std::size_t>(which)];
        const auto at = again.halves.find(operation);
        if (at == again.halves.end() || at->second.cancelled) return;
        again.halves.erase(at);
        leave_device(which, fmt::format("transfer {}", operation));
        std::vector<RegionCommand> out;
        again.exchange->ended(now_, operation, std::nullopt, out);
        act(which, std::move(out));
      });
    };
    end(index, issue.operation);
    end(peer.index, number);
    return;
  }
}

void GroupWorld::tick_exchange(int index) {
  auto& process = *processes_[static_cast<std::size_t>(index)];
  const auto due = process.exchange->next_deadline();
  if (!due || (process.wakes && *process.wakes <= *due && *process.wakes > now_)) return;
  process.wakes = due;
  const Duration wait = std::max<Duration>(*due - now_, 0ms);
  at_process(index, wait, wait, [this, index] {
    auto& again = *processes_[static_cast<std::size_t>(index)];
    again.wakes.reset();
    std::vector<RegionCommand> out;
    again.exchange->tick(now_, out);
    act(index, std::move(out));
  });
}

}  // namespace mobula::internal::collective
