#include "tensor/collective/core/group_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "tensor/collective/core/group_world_parts.h"
#include "tensor/collective/core/plan.h"

namespace mobula::internal::collective {
namespace {

constexpr PlanOptions small_plans{
    .ring_from = 5000, .chain_from = 6000, .chunk_bytes = 512, .most_scratch = 1 << 16};
constexpr std::size_t pipe_bytes = 2048;

}  // namespace

GroupWorld::GroupWorld(std::uint64_t seed, const GroupPlan& plan, GroupMutation mutation)
    : plan_(plan), mutation_(std::move(mutation)), random_(seed), times_(random_.fork("times")) {
  for (int i = 0; i < plan.processes; ++i) {
    auto process = std::make_unique<Process>();
    process->index = i;
    process->id = ProcessId::of(static_cast<unsigned>(i + 1));
    process->exchange = std::make_unique<transfer::TensorExchangeCore>(process->id);
    processes_.push_back(std::move(process));
  }
  make_groups();
  if (plan.transfers) add_transfers();
  add_faults();
}

GroupWorld::~GroupWorld() = default;

// ---- history ------------------------------------------------------------------------------------

void GroupWorld::at(Time when, std::function<void()> what) {
  events_.push({when, ++numbers_, std::move(what)});
}

// Runs later while the process is stopped, and never when it is dead.
void GroupWorld::at_process(int index, Duration low, Duration high, std::function<void()> what) {
  at(now_ + times_.between(low, high), [this, index, what = std::move(what)] {
    const auto& process = *processes_[static_cast<std::size_t>(index)];
    if (!process.alive) return;
    if (process.stopped_until <= now_) return what();
    const Duration left = process.stopped_until - now_;
    at_process(index, left, left, what);
  });
}

void GroupWorld::tell(int process, const std::string& what) {
  log_.push_back(fmt::format("{} us  process {}  {}",
                             (now_ - Time::from_ns(1'000'000'000)).count() / 1000, process, what));
  if (log_.size() > 600) log_.pop_front();
}

std::string GroupWorld::story() const {
  std::string all;
  for (const auto& each : log_) all += each + "\n";
  return all;
}

void GroupWorld::violation(const std::string& what) {
  if (wrong_.empty()) wrong_ = what;
}

std::string GroupWorld::run() {
  while (!events_.empty() && wrong_.empty()) {
    if (++steps_ > 400'000) return "it never ends";
    const auto event = events_.top();
    events_.pop();
    now_ = std::max(now_, event.at);
    event.what();
  }
  return wrong_.empty() ? at_the_end() : wrong_;
}

// ---- script -------------------------------------------------------------------------------------

void GroupWorld::make_groups() {
  Random script = random_.fork("script");
  const auto some_of = [&](unsigned per_mille, std::uint32_t n) {
    return script.chance(per_mille) ? std::optional(static_cast<std::uint32_t>(script.below(n)))
                                    : std::nullopt;
  };
  for (int index = 0; index < plan_.groups; ++index) {
    auto group = std::make_unique<Group>();
    group->index = index;
    group->ends_are_seen_on_wires = script.chance(500);
    std::vector<int> who;
    for (int i = 0; i < plan_.processes; ++i) who.push_back(i);
    for (std::size_t i = who.size(); i > 1; --i) std::swap(who[i - 1], who[script.below(i)]);
    who.resize(static_cast<std::size_t>(script.between(2, plan_.processes)));
    const auto n = static_cast<std::uint32_t>(who.size());
    if (plan_.library_faults) {
      switch (script.below(5)) {
        case 0: group->without_library = static_cast<std::uint32_t>(script.below(n)); break;
        case 1: group->cannot_open = static_cast<std::uint32_t>(script.below(n)); break;
        case 2: group->cannot_begin = true; break;
        default: break;
      }
    }
    MemberTerms terms;
    MemberLocations locations;
    terms.communication = plan_.communication;
    terms.communicated_from = 5000;
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      const std::string id = processes_[static_cast<std::size_t>(who[rank])]->id.hex();
      terms.names.push_back(fmt::format("rank {}", rank));
      locations.processes.push_back(mutation_.order ? mutation_.order(id, index) : id);
      locations.hosts.push_back("host");
    }
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      auto seat = std::make_unique<Seat>();
      seat->group = group.get();
      seat->rank = rank;
      seat->process = who[rank];
      terms.rank = rank;
      seat->core = std::make_unique<MemberCore>(terms);
      seat->core->connected(locations);
      seat->pipes.resize(n);
      group->seats.push_back(std::move(seat));
    }
    if (plan_.communication == Communication::always) {
      Round opening;
      opening.opens = true;
      group->rounds.push_back(opening);
    }
    for (int i = 0; i < plan_.rounds; ++i) {
      Round round;
      round.number = group->rounds.size();
      round.operation.dtype = DType::int32;
      round.operation.kind = static_cast<OperationKind>(script.below(9));
      round.operation.root = static_cast<std::uint32_t>(script.below(n));
      const auto count = static_cast<std::int64_t>(script.chance(100)   ? 0
                                                   : script.chance(400) ? script.between(1200, 3000)
                                                                        : script.between(1, 300));
      round.operation.shape = {(count + n - 1) / n * n};
      // A member that waits for a late one is late itself, so these histories have no pair
      // operations.
      if (!plan_.absences && script.chance(plan_.pairs ? 700 : 200)) {
        const auto from = static_cast<std::uint32_t>(script.below(n));
        round.pair = {from, (from + 1 + static_cast<std::uint32_t>(script.below(n - 1))) % n};
        round.operation.kind = OperationKind::send;
      }
      if (round.operation.kind == OperationKind::barrier) round.operation.shape = {};
      round.on_devices = plan_.communication == Communication::always ||
                         (plan_.communication == Communication::useful && script.chance(800));
      if (plan_.mismatches && !round.pair) round.odd = some_of(250, n);
      if (plan_.absences && !round.odd) round.absent = some_of(100, n);
      if (plan_.cancels) round.cancelled = some_of(60, n);
      if (plan_.no_memory && !round.odd && !round.absent) round.without_memory = some_of(60, n);
      if (plan_.library_faults && !round.odd) round.kernel_fails = some_of(60, n);
      if (round.kernel_fails) round.fails_at_its_end = script.chance(500);
      group->rounds.push_back(round);
    }
    for (auto& seat : group->seats) {
      seat->outcomes.resize(group->rounds.size());
      Seat* const at = seat.get();
      at_process(at->process, 0ms, 5ms, [this, at] { begin_round(*at); });
    }
    groups_.push_back(std::move(group));
  }
}

void GroupWorld::blame(int group, std::uint32_t rank, const char* why) {
  auto& blamed = *groups_[static_cast<std::size_t>(group)];
  blamed.culprits.emplace(rank, now_);
  blamed.why.insert(why);
  tell(blamed.seats[rank]->process, fmt::format("group {} rank {}: {}", group, rank, why));
}

void GroupWorld::add_faults() {
  Random faults = random_.fork("faults");
  const auto soon = [&] { return now_ + faults.between(1ms, 150ms); };
  const auto a_process = [&] { return static_cast<int>(faults.below(processes_.size())); };
  if (plan_.leaves) {
    for (auto& group : groups_) {
      Seat* const seat = group->seats[faults.below(group->size())].get();
      at(soon(), [this, seat] {
        if (!processes_[static_cast<std::size_t>(seat->process)]->alive || seat->core->over())
          return;
        blame(seat->group->index, seat->rank, "left");
        seat->left = true;
        step(*seat, [this](MemberCore& core, Commands& out) { core.left(now_, out); });
      });
    }
  }
  if (plan_.deaths) {
    for (auto left = faults.between(1, 2); left > 0; --left) {
      at(soon(), [this, process = a_process()] { die(process); });
    }
  }
  if (plan_.stops) {
    for (auto left = faults.between(1, 3); left > 0; --left) {
      const auto span = faults.between(1ms, 4s);
      at(soon(), [this, process = a_process(), span] {
        tell(process, "stops");
        processes_[static_cast<std::size_t>(process)]->stopped_until = now_ + span;
        for (auto& group : groups_) {
          for (auto& seat : group->seats) {
            if (seat->process == process) blame(group->index, seat->rank, "stopped");
          }
        }
      });
    }
  }
}

void GroupWorld::die(int index) {
  auto& process = *processes_[static_cast<std::size_t>(index)];
  if (!std::exchange(process.alive, false)) return;
  tell(index, "dies");
  for (auto& group : groups_) {
    for (auto& seat : group->seats) {
      if (seat->process != index) continue;
      blame(group->index, seat->rank, "died");
      close(*seat);
    }
  }
  for (auto& other : processes_) {
    at_process(other->index, 1ms, 40ms, [this, other = other.get(), gone = process.id] {
      std::vector<transfer::RegionCommand> out;
      other->exchange->peer_gone(now_, gone, false, out);
      act(other->index, std::move(out));
    });
  }
}

void GroupWorld::begin_round(Seat& seat) {
  Group& group = *seat.group;
  while (seat.round < group.rounds.size() && group.rounds[seat.round].pair &&
         group.rounds[seat.round].pair->first != seat.rank &&
         group.rounds[seat.round].pair->second != seat.rank) {
    ++seat.round;
  }
  if (seat.round >= group.rounds.size() || seat.left || seat.running) return;
  const Round& round = group.rounds[seat.round];
  Outcome& outcome = seat.outcomes[seat.round];
  outcome.begun = true;
  outcome.began = now_;
  seat.running = true;
  seat.went_by_device = false;
  const bool hasty = plan_.absences || plan_.stops;
  const Time deadline = now_ + (hasty ? Duration(1s) : Duration(60s));
  tell(seat.process, fmt::format("group {} rank {} begins {}: {}", group.index, seat.rank,
                                 seat.round, round.opens ? "opening" : round.operation.text()));
  if (round.cancelled == seat.rank) {
    at_process(seat.process, 0ms, 10ms, [this, &seat, number = seat.round] {
      if (!seat.running || seat.round != number) return;
      blame(seat.group->index, seat.rank, "was cancelled");
      step(seat, [this](MemberCore& core, Commands& out) { core.cancelled(now_, out); });
    });
  }
  if (round.opens)
    return step(seat, [&](MemberCore& core, Commands& out) { core.open(now_, deadline, out); });
  Operation own = round.operation;
  if (round.odd == seat.rank) {
    own.kind = own.kind == OperationKind::barrier ? OperationKind::all_gather : own.kind;
    own.shape = {own.shape.empty() ? group.size() : own.shape[0] + group.size()};
  }
  const bool rooted = own.kind == OperationKind::broadcast || own.kind == OperationKind::scatter;
  own.open = rooted && own.root != seat.rank && !round.odd && round.number % 2 == 0;
  if (plan_.communication != Communication::never &&
      (own.open ? !seat.core->devices().empty() : round.on_devices)) {
    own.device =
        own.open ? seat.core->devices()[seat.rank] : fmt::format("gpu of {}", seat.process);
    own.library = group.without_library == seat.rank ? "" : "2.28.9";
  }
  seat.input = input_of(group, round, own, seat.rank);
  if (round.pair && round.pair->first == seat.rank) {
    return step(seat, [&](MemberCore& core, Commands& out) {
      core.send(now_, round.pair->second, own, deadline, out);
    });
  }
  if (round.pair) {
    return step(seat, [&](MemberCore& core, Commands& out) {
      core.receive(now_, round.pair->first, deadline, out);
    });
  }
  step(seat,
       [&](MemberCore& core, Commands& out) { core.meet(now_, own, seat.input, deadline, out); });
  if (!mutation_.believes_that_all_have_come) return;
  for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
    ControlMessage message;
    message.number = static_cast<std::uint64_t>(std::count_if(
        group.rounds.begin(), group.rounds.begin() + static_cast<std::ptrdiff_t>(seat.round) + 1,
        [](const Round& each) { return !each.pair && !each.opens; }));
    message.operation = own;
    message.operand = goes_with_words(own, group.size()) ? seat.input : std::vector<std::byte>{};
    step(seat, [&](MemberCore& core, Commands& out) { core.on(now_, rank, message, out); });
  }
}

void GroupWorld::round_ended(Seat& seat) {
  Outcome& outcome = seat.outcomes[seat.round];
  outcome.ended = true;
  outcome.at = now_;
  outcome.refused = seat.core->refused();
  seat.running = false;
  seat.progress.reset();
  static const char* const kinds[] = {"invalid",   "mismatch",  "broken",
                                      "timed out", "cancelled", "destroyed"};
  static const char* const ways[] = {"done by words", "done by plan", "done by device"};
  const bool opens = seat.group->rounds[seat.round].opens;
  outcome.way = outcome.refused ? kinds[static_cast<int>(outcome.refused->kind)]
                : opens         ? "opened"
                                : ways[static_cast<int>(seat.core->way())];
  ++counts_[outcome.way];
  if (!outcome.refused && seat.went_by_device && seat.core->way() != MemberCore::Way::device)
    ++counts_["done by plan at last"];
  tell(seat.process,
       fmt::format("group {} rank {} ends {}: {}", seat.group->index, seat.rank, seat.round,
                   outcome.refused ? outcome.refused->text : outcome.way));
  check_outcome(seat);
  ++seat.round;
  if (seat.core->over()) return;
  const auto begin = [this, &seat] { begin_round(seat); };
  const auto next =
      seat.round < seat.group->rounds.size() ? seat.group->rounds[seat.round].absent : std::nullopt;
  if (next != seat.rank) return at_process(seat.process, 0ms, 3ms, begin);
  blame(seat.group->index, seat.rank, "comes late");
  at_process(seat.process, 10s, 10s, begin);
}

// ---- owner of a member --------------------------------------------------------------------------

void GroupWorld::step(Seat& seat, const Act& act) {
  if (!wrong_.empty() || !processes_[static_cast<std::size_t>(seat.process)]->alive) return;
  Commands out;
  act(*seat.core, out);
  carry_out(seat, out);
  follow(seat);
}

void GroupWorld::carry_out(Seat& seat, const Commands& commands) {
  for (const auto& command : commands) {
    if (std::holds_alternative<CloseConnections>(command)) {
      if (!mutation_.nothing_is_closed) close(seat);
      continue;
    }
    const auto& said = std::get<SendControl>(command);
    for (std::uint32_t rank = 0; rank < seat.group->size(); ++rank) {
      if (rank != seat.rank && (!said.to || *said.to == rank)) say(seat, rank, said.message);
    }
  }
}

void GroupWorld::deliver(Seat& from, Seat& to, std::function<void(Seat&)> what) {
  Time& last = from.last_word[to.rank];
  last = std::max(last, now_ + times_.between(0ms, 3ms));
  at(last, [this, &to, what = std::move(what)] {
    at_process(to.process, 0ms, 0ms, [&to, what] { what(to); });
  });
}

void GroupWorld::say(Seat& seat, std::uint32_t rank, const ControlMessage& message) {
  ControlMessage said = message;
  if (mutation_.message && !mutation_.message(seat.rank, said)) return;
  if (mutation_.tells_nobody_else && said.kind == ControlKind::let_go && seat.core->other() &&
      *seat.core->other() != rank)
    return;
  const auto bytes = encode(said);
  if (bytes.size() > max_word_bytes) return violation("a word is longer than words are");
  deliver(seat, *seat.group->seats[rank], [this, from = seat.rank, bytes](Seat& to) {
    auto received = decode_message(bytes);
    if (!received) return violation("a word cannot be read: " + received.error().text);
    if (mutation_.received && to.running) {
      Operation own = to.group->rounds[to.round].operation;
      mutation_.received(own, *received);
    }
    step(to,
         [&](MemberCore& core, Commands& out) { core.on(now_, from, std::move(*received), out); });
  });
}

// Mutation: a completion here counts as a completion at all members.
void GroupWorld::believe_that_all_came(Seat& seat) {
  for (std::uint32_t rank = 0; rank < seat.group->size(); ++rank) {
    ControlMessage message;
    message.kind = ControlKind::came;
    step(seat, [&](MemberCore& core, Commands& out) { core.on(now_, rank, message, out); });
  }
}

void GroupWorld::close(Seat& seat) {
  ++seat.closes;
  for (auto& other : seat.group->seats) {
    if (other.get() == &seat) continue;
    deliver(seat, *other, [this, from = seat.rank](Seat& to) {
      step(to, [&](MemberCore& core, Commands& out) {
        core.cut_off(now_, from, "its process has ended, or left the group", out);
      });
    });
    if (!seat.group->ends_are_seen_on_wires) continue;
    at_process(other->process, 0ms, 4ms, [this, to = other.get(), from = seat.rank] {
      to->ended_wires.insert(from);
      pump_soon(*to);
    });
  }
}

void GroupWorld::follow(Seat& seat) {
  MemberCore& core = *seat.core;
  if (core.over() && !seat.issued.empty() && !seat.becomes_quiet) {
    be_quiet(seat, [this, &seat] { return_turn_of_device(seat); });
    if (mutation_.turns_back_before_quiet) return_turn_of_device(seat);
  }
  const auto stage = core.stage();
  if (stage == MemberCore::Stage::idle && seat.running) round_ended(seat);
  if (seat.issued.empty() && !core.needs_turn() && seat.claim != 0) return_turn_of_device(seat);
  wake(seat);
  if (std::exchange(seat.seen, stage) == stage) return;
  switch (stage) {
    case MemberCore::Stage::idle:
    case MemberCore::Stage::hearing:
    case MemberCore::Stage::explaining: return;
    case MemberCore::Stage::preparing:
      return at_process(seat.process, 0ms, 2ms, [this, &seat] { prepare(seat); });
    case MemberCore::Stage::beginning:
      return at_process(seat.process, 0ms, 5ms, [this, &seat] {
        step(seat, [&](MemberCore& again, Commands& out) {
          if (!seat.group->cannot_begin)
            return again.begun(now_, std::vector<std::byte>(128, std::byte{7}), out);
          if (plan_.communication == Communication::always)
            blame(seat.group->index, seat.rank, "cannot begin");
          again.begun(now_, failure(ErrorCode::unavailable, "the library cannot begin"), out);
        });
      });
    case MemberCore::Stage::claiming: return claim(seat);
    case MemberCore::Stage::opening: return issue(seat, true);
    case MemberCore::Stage::closing:
      return be_quiet(seat, [this, &seat] {
        step(seat,
             [&](MemberCore& again, Commands& out) { again.closed(now_, std::nullopt, out); });
      });
    case MemberCore::Stage::moving: return begin_moving(seat);
  }
}

void GroupWorld::wake(Seat& seat) {
  const auto due = seat.core->next_deadline();
  if (!due || seat.wakes == due) return;
  seat.wakes = due;
  const Duration wait = std::max<Duration>(*due - now_, 0ms);
  at_process(seat.process, wait, wait, [this, &seat] {
    // Messages that arrived during a stop are processed first.
    at_process(seat.process, 5ms, 5ms, [this, &seat] {
      seat.wakes.reset();
      MemberCore::Ranks ranks;
      for (std::uint32_t rank = 0; seat.progress && rank < seat.group->size(); ++rank) {
        if (rank != seat.rank && seat.progress->waits_for(rank)) ranks.push_back(rank);
      }
      step(seat, [&](MemberCore& core, Commands& out) { core.tick(now_, ranks, out); });
    });
  });
}

void GroupWorld::prepare(Seat& seat) {
  if (seat.core->stage() != MemberCore::Stage::preparing) return;
  const Round& round = seat.group->rounds[seat.round];
  expect_all_there(seat, "takes memory");
  std::optional<Failure> failed;
  if (round.without_memory == seat.rank) {
    blame(seat.group->index, seat.rank, "has no memory");
    failed = failure(ErrorCode::resource_exhausted, "reserve memory: no memory is left");
  }
  step(seat, [&](MemberCore& core, Commands& out) { core.prepared(now_, failed, out); });
}

void GroupWorld::expect_all_there(const Seat& seat, const char* what) {
  const Round& round = seat.group->rounds[seat.round];
  for (const auto& other : seat.group->seats) {
    if (round.pair && other->rank != round.pair->first && other->rank != round.pair->second)
      continue;
    if (!other->outcomes[seat.round].begun) {
      return violation(fmt::format("group {} rank {} {} for operation {}, and rank {} has not come",
                                   seat.group->index, seat.rank, what, seat.round, other->rank));
    }
  }
  if (round.odd)
    violation(fmt::format("group {} rank {} {} for operation {}, of which rank {} wants another",
                          seat.group->index, seat.rank, what, seat.round, *round.odd));
}

void GroupWorld::begin_moving(Seat& seat) {
  expect_all_there(seat, "moves bytes");
  if (!wrong_.empty()) return;
  const Operation& agreed = seat.core->agreed();
  const auto n = seat.group->size();
  const auto& pair = seat.group->rounds[seat.round].pair;
  const auto bytes = static_cast<std::size_t>(agreed.bytes());
  seat.output.assign(
      pair ? (pair->second == seat.rank ? bytes : 0) : output_bytes(agreed, seat.rank, n),
      std::byte{0xee});
  if (seat.core->way() == MemberCore::Way::device) {
    seat.went_by_device = true;
    if (bytes > 0) return issue(seat, false);
    return at_process(seat.process, 0ms, 0ms, [this, &seat] {
      step(seat, [&](MemberCore& core, Commands& out) { core.moved(now_, std::nullopt, out); });
    });
  }
  if (seat.core->way() == MemberCore::Way::words) {
    return at_process(seat.process, 0ms, 1ms, [this, &seat] {
      step(seat, [&](MemberCore& core, Commands& out) { core.moved(now_, std::nullopt, out); });
    });
  }
  seat.plan = pair ? Plan{} : make_plan(agreed, seat.rank, n, small_plans);
  if (pair && bytes > 0 && pair->first == seat.rank)
    seat.plan.steps.push_back({.kind = StepKind::send, .peer = pair->second, .length = bytes});
  if (pair && bytes > 0 && pair->second == seat.rank) {
    seat.plan.steps.push_back(
        {.kind = StepKind::receive, .peer = pair->first, .to = {Area::output, 0}, .length = bytes});
  }
  seat.scratch.assign(seat.plan.scratch_bytes, std::byte{0xdd});
  seat.progress.emplace(agreed, seat.plan, seat.rank, n,
                        Memory{seat.input, seat.output, seat.scratch});
  pump_soon(seat);
}

void GroupWorld::pump_soon(Seat& seat) {
  if (std::exchange(seat.pumps, true)) return;
  at_process(seat.process, 0ms, 2ms, [this, &seat] {
    seat.pumps = false;
    pump(seat);
  });
}

void GroupWorld::pump(Seat& seat) {
  if (!seat.progress || seat.core->stage() != MemberCore::Stage::moving) return;
  Progress& progress = *seat.progress;
  bool moved = false;
  for (std::uint32_t rank = 0; rank < seat.group->size(); ++rank) {
    if (rank == seat.rank) continue;
    Seat& other = *seat.group->seats[rank];
    auto& coming = other.pipes[seat.rank];
    auto& going = seat.pipes[rank];
    bool some = false;
    for (auto buffer = progress.to_receive(rank); !buffer.empty() && !coming.empty();
         buffer = progress.to_receive(rank)) {
      const std::size_t count =
          std::min({buffer.size(), coming.size(), std::size_t{1} + times_.below(1500)});
      std::copy_n(coming.begin(), count, buffer.begin());
      coming.erase(coming.begin(), coming.begin() + static_cast<std::ptrdiff_t>(count));
      progress.received(rank, count);
      some = true;
    }
    for (auto bytes = progress.to_send(rank); !bytes.empty() && going.size() < pipe_bytes;
         bytes = progress.to_send(rank)) {
      const std::size_t count =
          std::min({bytes.size(), pipe_bytes - going.size(), std::size_t{1} + times_.below(1500)});
      going.insert(going.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
      progress.sent(rank, count);
      some = true;
    }
    if (some) pump_soon(other);
    moved = moved || some;
    if (some || !seat.ended_wires.contains(rank) || !progress.waits_for(rank)) continue;
    const bool to_receive = !progress.to_receive(rank).empty();
    if (!to_receive && progress.to_send(rank).empty()) continue;
    return step(seat, [&](MemberCore& core, Commands& out) {
      if (mutation_.wires_end_like_words)
        return core.cut_off(now_, rank, "its wire has ended", out);
      core.wire_failed(now_, rank, "its wire has ended");
    });
  }
  if (!progress.done()) {
    if (moved) pump_soon(seat);
    return;
  }
  step(seat, [&](MemberCore& core, Commands& out) { core.moved(now_, std::nullopt, out); });
}

}  // namespace mobula::internal::collective
