#include "tensor/exchange/core/region_world.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tensor/exchange/core/region_story.h"

namespace mobula::internal::transfer {
RegionWorld::RegionWorld(std::uint64_t seed, const RegionPlan& plan, RegionMutation mutation)
    : plan_(plan), mutation_(std::move(mutation)), random_(seed), times_(random_.fork("times")) {
  options_.step_bytes = 64 << 10;
  options_.redirect_from_bytes = 100 << 10;
  options_.chunk_bytes = 64 << 10;
  options_.idle_timeout = !plan.idles ? Duration(0) : faulty() ? Duration(60ms) : Duration(15ms);
  options_.many_ties = 3;
  options_.part_after_of_many = options_.idle_timeout / 5;
  if (plan.max_receive_bytes > 0) options_.max_receive_bytes = plan.max_receive_bytes;
  for (int i = 1; i <= plan.processes; ++i) start(ProcessId::of(static_cast<unsigned>(i)));
  add_work();
  if (faulty()) add_faults();
}

void RegionWorld::at(Time when, std::function<void()> what) {
  events_.push({when, ++numbers_, std::move(what)});
}

void RegionWorld::after(Duration low, Duration high, std::function<void()> what) {
  at(now_ + times_.between(low, high), std::move(what));
}

void RegionWorld::at_process(ProcessId id, Duration low, Duration high,
                             std::function<void(Process&)> what) {
  after(low, high, [this, id, what = std::move(what)] {
    auto& process = this->process(id);
    if (!process.alive) return;
    if (process.stopped_until > now_) {
      const auto left = process.stopped_until - now_;
      return at_process(id, left, left, what);
    }
    what(process);
    check(process);
    wake(process);
  });
}

void RegionWorld::start(ProcessId id) {
  auto options = options_;
  if (mutation_.options) mutation_.options(options);
  Process process;
  process.id = id;
  process.exchange =
      std::make_unique<TensorExchangeCore>(mutation_.self ? mutation_.self(id) : id, options);
  for (int i = 1; i <= plan_.processes; ++i)
    process.exchange->supports_close(ProcessId::of(static_cast<unsigned>(i)));
  processes_.emplace(id, std::move(process));
}

// ---- commands -----------------------------------------------------------------------------------

void RegionWorld::carry_out(Process& process, std::vector<RegionCommand> commands) {
  for (auto& each : commands) {
    if (!wrong_.empty()) return;
    if (mutation_.command && !mutation_.command(process.id, each)) continue;
    act(process, each);
  }
}

void RegionWorld::tell(ProcessId who, std::string what) {
  log_.push_back(std::to_string((now_ - Time::from_ns(1'000'000'000)).count() / 1000) + " us  " +
                 who.brief() + "  " + std::move(what));
  if (log_.size() > 400) log_.pop_front();
}

std::string RegionWorld::story() const {
  std::string all;
  for (const auto& each : log_) all += each + "\n";
  return all;
}

void RegionWorld::act(Process& process, RegionCommand& command) {
  const auto id = process.id;
  tell(id, describe(command));
  if (const auto* each = std::get_if<SendRegions>(&command)) {
    send(process, each->to, each->message);
  } else if (const auto* wanted = std::get_if<OfferTensor>(&command)) {
    if (process.freed.contains(wanted->object)) violation("freed bytes are exported");
    bool fails = plan_.transport_faults && !quiet_ && random_.chance(100);
    if (object(wanted->object).maker != id) {
      const auto copy = process.copies.find(wanted->object);
      if (copy == process.copies.end() || !copy->second.here.contains(wanted->part)) {
        return violation("a chunk is relayed that has not arrived");
      }
      // its memory is freed
      fails = fails || (copy->second.forgotten && !is_given(process, wanted->object));
    }
    if (!fails) {
      Operation made;
      made.kind = Operation::Kind::exported;
      made.object = wanted->object;
      made.part = wanted->part;
      made.peer = wanted->peer;
      process.operations[wanted->operation] = std::move(made);
    }
    at_process(id, 0ms, 2ms, [this, operation = wanted->operation, fails](Process& again) {
      std::vector<RegionCommand> out;
      if (fails) {
        again.exchange->exported(now_, operation,
                                 failure(ErrorCode::unavailable, "an export failed"), out);
      } else {
        again.exchange->exported(now_, operation, std::to_string(operation), out);
      }
      carry_out(again, std::move(out));
    });
  } else if (const auto* back = std::get_if<WithdrawOffer>(&command)) {
    unexport(process, back->operation);
  } else if (const auto* reads = std::get_if<PullChunk>(&command)) {
    fetch(process, *reads);
  } else if (const auto* half = std::get_if<IssueStep>(&command)) {
    issue(process, *half);
  } else if (const auto* stop = std::get_if<Cancel>(&command)) {
    cancel(process, stop->operation);
  } else if (const auto* freed = std::get_if<FreeRegions>(&command)) {
    free(process, freed->object);
  } else if (const auto* store = std::get_if<StoreRegions>(&command)) {
    at_process(id, 1ms, 20ms, [this, object = store->object](Process& again) {
      std::optional<Failure> failed;
      if (plan_.transport_faults && !quiet_ && random_.chance(300))
        failed = Failure{ErrorCode::resource_exhausted, "no room"};
      if (!failed) this->object(object).in_store = true;
      std::vector<RegionCommand> out;
      again.exchange->stored(now_, object, failed, out);
      carry_out(again, std::move(out));
    });
  } else if (const auto* resolve = std::get_if<ResolveHolder>(&command)) {
    at_process(id, 1ms, 5ms, [this, which = resolve->object](Process& again) {
      RegionsLocated answer;
      answer.in_store = object(which).in_store;
      for (const auto& [other, row] : processes_) {
        if (row.alive && row.published.contains(which) && other != again.id)
          answer.holders.push_back(other);
      }
      answer.lost = !answer.in_store && answer.holders.empty();
      std::vector<RegionCommand> out;
      again.exchange->located(now_, which, answer, out);
      carry_out(again, std::move(out));
    });
  } else if (const auto* closing = std::get_if<Part>(&command)) {
    part(process, *closing);
  } else if (const auto* replica_holder = std::get_if<Reach>(&command)) {
    reach(process, *replica_holder);
  } else if (const auto* ended = std::get_if<PullEnded>(&command)) {
    pull_ended(process, *ended);
  }
}

void RegionWorld::send(Process& from, ProcessId to, const RegionMessage& message) {
  if (!processes_.contains(to)) return;
  check_way(from, to, message);
  const std::pair key{from.id, to};
  auto& last = last_arrival_[key];
  last = std::max(last, now_ + times_.between(0ms, 3ms));
  said_[key].emplace_back(message, link_[key]);
  at(last, [this, key] {
    const auto wait = process(key.second).stopped_until - now_;
    // In order, even if the process stops in between.
    const auto hear = [this, key](Process& process) {
      const auto [word, generation] = said_[key].front();
      said_[key].pop_front();
      if (generation != link_[key] || process.gone.contains(key.first)) return;
      std::vector<RegionCommand> out;
      process.exchange->on(now_, key.first, word, out);
      carry_out(process, std::move(out));
    };
    at_process(key.second, std::max<Duration>(wait, 0ms), std::max<Duration>(wait, 0ms), hear);
  });
}

// ---- connections --------------------------------------------------------------------------------

// On the connection from a holder to a receiver, no message follows the request to close, except
// the holder's reply. The next connection starts after that reply.
void RegionWorld::check_way(const Process& from, ProcessId to, const RegionMessage& message) {
  const auto* step = std::get_if<TwoSidedStep>(&message);
  const bool of_receiver = step != nullptr
                               ? step->from_receiver
                               : std::holds_alternative<PullTensorRequest>(message) ||
                                     std::holds_alternative<PullTensorComplete>(message) ||
                                     std::holds_alternative<PullTensorCancelled>(message) ||
                                     std::holds_alternative<ReplicaEvicted>(message) ||
                                     std::holds_alternative<CloseConnectionRequest>(message);
  Way& way = ways_[of_receiver ? std::pair(from.id, to) : std::pair(to, from.id)];
  if (const auto* closing = std::get_if<CloseConnectionRequest>(&message)) {
    if (std::exchange(way, Way::closing) != Way::open) violation("a connection is closed twice");
    for (const auto& [number, each] : from.operations) {
      if (each.pull != 0 && each.peer == to)
        violation("a connection is closed by which something comes");
    }
    if (!mutation_.parts_without_an_answer) return;
    at_process(from.id, 0ms, 0ms, [this, to, round = closing->round](Process& process) {
      std::vector<RegionCommand> out;
      process.exchange->on(now_, to, CloseConnectionReply{round}, out);
      carry_out(process, std::move(out));
    });
  } else if (std::holds_alternative<CloseConnectionReply>(message)) {
    // Also the last message of a link that broke before.
    if (way == Way::closing) way = Way::parted;
  } else if (of_receiver ? way != Way::open : way == Way::parted) {
    violation("a message is sent over a closed connection: " +
              describe(RegionCommand(SendRegions{to, message})));
  }
}

void RegionWorld::part(Process& process, const Part& command) {
  Way& way = ways_[{process.id, command.holder}];
  if (std::exchange(way, Way::open) != Way::parted)
    violation("a connection is closed that its holder has not released");
  ++partings_;
  if (command.again) ++again_;
}

// ---- transports ---------------------------------------------------------------------------------

void RegionWorld::fetch(Process& process, const PullChunk& command) {
  Operation reads;
  reads.pull = command.pull;
  reads.peer = command.holder;
  reads.source = std::stoull(command.ticket);
  const auto& wanted = process.wanted.at(command.pull);
  reads.object = wanted.object;
  reads.part = wanted.part;
  if (wanted.copy != 0 && process.copies.at(reads.object).here.contains(reads.part)) {
    return violation("a part is written that others may be given");
  }
  reads.link = link_[{command.holder, process.id}];
  process.operations[command.operation] = reads;
  if (plan_.transport_faults && !quiet_ && random_.chance(100)) return;  // no progress
  at_process(process.id, 0ms, 30ms, [this, operation = command.operation](Process& again) {
    fetch_done(again, operation);
  });
}

void RegionWorld::fetch_done(Process& process, OperationId operation) {
  const auto at = process.operations.find(operation);
  if (at == process.operations.end()) return;
  const auto reads = at->second;
  if (reads.cancelled) return;
  auto& holder = this->process(reads.peer);
  const auto source = holder.operations.find(reads.source);
  const bool there = holder.alive && source != holder.operations.end() &&
                     source->second.object == reads.object && !holder.freed.contains(reads.object);
  if (there && source->second.part != reads.part)
    return violation("another part is given than was wanted");
  const bool fails = !there || (plan_.transport_faults && !quiet_ && random_.chance(100));
  process.operations.erase(at);
  if (!fails) served_[reads.peer] += span(object(reads.object), reads.part).size_bytes;
  std::vector<RegionCommand> out;
  process.exchange->ended(
      now_, operation,
      fails ? std::optional(failure(ErrorCode::unavailable, "channel broke")) : std::nullopt, out);
  carry_out(process, std::move(out));
}

void RegionWorld::issue(Process& process, const IssueStep& command) {
  const auto device = command.pull == 0 ? process.device_of.at(command.object)
                                        : process.wanted.at(command.pull).device;
  for (const auto& [number, other] : process.operations) {
    const bool here = other.kind == Operation::Kind::issue && other.device == device;
    if (here) return violation("two operations at once on one device");
  }
  if (command.pull == 0 && process.freed.contains(command.object))
    return violation("freed bytes are sent");
  Operation half;
  half.kind = Operation::Kind::issue;
  half.object = command.object;
  half.pull = command.pull;
  half.peer = command.peer;
  half.issue = command;
  half.device = device;
  process.operations[command.operation] = half;
  match(process, command.operation);
}

// A transfer continues when both sides have issued the same step; one side alone waits forever.
void RegionWorld::match(Process& process, OperationId operation) {
  auto& mine = process.operations.at(operation);
  auto& peer = this->process(mine.peer);
  if (!peer.alive) return;
  for (auto& [number, theirs] : peer.operations) {
    if (theirs.kind != Operation::Kind::issue || theirs.matched || theirs.cancelled ||
        channel(peer, theirs.issue) != channel(process, mine.issue)) {
      continue;
    }
    const auto& a = mine.issue;
    const auto& b = theirs.issue;
    if (a.opens != b.opens || a.offset != b.offset || a.size_bytes != b.size_bytes ||
        a.object != b.object || (a.pull == 0) == (b.pull == 0)) {
      return violation("two sides of one channel do different things");
    }
    if (broken_.contains(channel(process, a))) return violation("a broken channel is used");
    if (!a.opens && !opened_.contains(channel(process, a)))
      return violation("a channel is used that was never opened");
    if (a.opens && !opened_.insert(channel(process, a)).second)
      return violation("a channel is opened twice");
    mine.matched = theirs.matched = true;
    const bool fails = plan_.transport_faults && !quiet_ && random_.chance(80);
    if (fails && random_.chance(500)) return;  // no progress
    if (fails) {
      at_process(process.id, 0ms, 5ms, [this, operation](Process& again) {
        const auto known = again.operations.find(operation);
        if (known == again.operations.end() || known->second.cancelled) return;
        broken_.insert(channel(again, known->second.issue));
        again.operations.erase(known);
        std::vector<RegionCommand> out;
        again.exchange->ended(now_, operation, failure(ErrorCode::unavailable, "channel broke"),
                              out);
        carry_out(again, std::move(out));
      });
      return;
    }
    at_process(process.id, 0ms, 5ms,
               [this, operation](Process& again) { issue_done(again.id, operation); });
    at_process(peer.id, 0ms, 5ms,
               [this, id = peer.id, number = number](Process&) { issue_done(id, number); });
    return;
  }
}

void RegionWorld::issue_done(ProcessId id, OperationId operation) {
  auto& process = this->process(id);
  const auto at = process.operations.find(operation);
  if (at == process.operations.end() || at->second.cancelled) return;
  const auto done = at->second.issue;
  process.operations.erase(at);
  if (done.pull == 0) served_[id] += done.size_bytes;
  std::vector<RegionCommand> out;
  process.exchange->ended(now_, operation, std::nullopt, out);
  carry_out(process, std::move(out));
}

void RegionWorld::cancel(Process& process, OperationId operation) {
  const auto at = process.operations.find(operation);
  if (at == process.operations.end()) return;  // its end is already scheduled
  at->second.cancelled = true;
  if (at->second.kind == Operation::Kind::issue) broken_.insert(channel(process, at->second.issue));
  if (mutation_.leaves_before_quiet && at->second.kind == Operation::Kind::fetch) {
    // The mutation reports the end too early.
    std::vector<RegionCommand> out;
    process.exchange->ended(now_, operation, failure(ErrorCode::cancelled, "cancelled"), out);
    return carry_out(process, std::move(out));
  }
  at_process(process.id, 0ms, 20ms, [this, operation](Process& again) {
    again.operations.erase(operation);
    std::vector<RegionCommand> out;
    again.exchange->ended(now_, operation, failure(ErrorCode::cancelled, "cancelled"), out);
    carry_out(again, std::move(out));
  });
}

void RegionWorld::unexport(Process& process, OperationId operation) {
  const auto at = process.operations.find(operation);
  if (at == process.operations.end()) return violation("an unknown export is withdrawn");
  auto& made = at->second;
  const auto& reader = this->process(made.peer);
  for (const auto& [number, other] : reader.operations) {
    const bool reads = other.kind == Operation::Kind::fetch && other.peer == process.id &&
                       other.source == operation;
    if (!reads || other.link != link_[{process.id, reader.id}]) continue;
    return violation("bytes are withdrawn while they are read");
  }
  at_process(process.id, 0ms, 5ms, [this, operation](Process& again) {
    again.operations.erase(operation);
    std::vector<RegionCommand> out;
    again.exchange->ended(now_, operation, std::nullopt, out);
    carry_out(again, std::move(out));
  });
}

void RegionWorld::free(Process& process, ObjectId which) {
  for (const auto& [number, each] : process.operations) {
    if (each.object != which || each.pull != 0) continue;
    violation("bytes are freed while they can be reached");
  }
  process.freed.insert(which);
  process.published.erase(which);
  process.copies.erase(which);
}

void RegionWorld::pull_ended(Process& process, const PullEnded& ended) {
  const auto at = process.wanted.find(ended.pull);
  if (at == process.wanted.end()) return violation("a pull ends twice");
  const auto wanted = at->second;
  process.wanted.erase(at);
  for (const auto& [number, each] : process.operations) {
    if (each.pull == ended.pull) violation("a pull has ended, and something still writes for it");
  }
  if (wanted.copy != 0 && !std::holds_alternative<RegionsHere>(ended.outcome))
    forget(process, wanted.object, wanted.copy);
  if (std::holds_alternative<RegionsHere>(ended.outcome)) {
    ++copies_;
    if (wanted.copy != 0 && process.exchange->has_copy(wanted.object)) {
      process.copies.at(wanted.object).here.insert(wanted.part);
      process.published.insert(wanted.object);
      process.freed.erase(wanted.object);
      if (plan_.impatient && random_.chance(50)) {
        at_process(process.id, 0ms, 60ms,
                   [this, wanted](Process& again) { forget(again, wanted.object, wanted.copy); });
      }
    }
  } else if (const auto* failed = std::get_if<Failure>(&ended.outcome)) {
    ++failures_;
    if (!faulty()) violation("a pull fails though nothing is wrong: " + failed->text);
    const bool links_only =
        !plan_.crashes && !plan_.stops && !plan_.transport_faults && !plan_.impatient;
    if (links_only)
      violation("a pull fails although its holder lives and links return: " + failed->text);
  } else if (!object(wanted.object).in_store) {
    violation("a pull is sent to the store, which does not have it");
  }
  if (object(wanted.object).dropped) unregister(process, wanted.object);
  ref_dropped(object(wanted.object));
}

// ---- deaths -------------------------------------------------------------------------------------

void RegionWorld::ref_dropped(Object& object) {
  if (--object.refs == 0) after(0ms, 10ms, [this, id = object.id] { drop(this->object(id)); });
}

void RegionWorld::drop(Object& object) {
  if (std::exchange(object.dropped, true)) return;
  for (auto& [id, row] : processes_) unregister(row, object.id);
}

// Retires the object once no pull in the process needs it.
void RegionWorld::unregister(Process& process, ObjectId which) {
  if (mutation_.copies_are_not_retired && object(which).maker != process.id) return;
  at_process(process.id, 0ms, 5ms, [this, which](Process& again) {
    for (const auto& [pull, wanted] : again.wanted) {
      if (wanted.object == which) return;  // the end of that pull calls this again
    }
    std::vector<RegionCommand> out;
    again.exchange->unregister(now_, which, out);
    again.published.erase(which);
    if (!again.exchange->has(which)) again.copies.erase(which);
    carry_out(again, std::move(out));
  });
}

bool RegionWorld::is_given(const Process& process, ObjectId which) const {
  return std::ranges::any_of(process.operations, [&](const auto& each) {
    return each.second.kind == Operation::Kind::exported && each.second.object == which;
  });
}

// The program releases a replica: its memory is freed at once, or when no offer uses it.
void RegionWorld::forget(Process& process, ObjectId which, std::uint64_t copy) {
  const auto at = process.copies.find(which);
  if (at == process.copies.end() || at->second.number != copy ||
      std::exchange(at->second.forgotten, true))
    return;
  tell(process.id, "releases its copy of " + which.brief());
  std::vector<RegionCommand> commands;
  for (auto& [pull, wanted] : process.wanted) {
    if (wanted.copy != copy || std::exchange(wanted.unwanted, true)) continue;
    process.exchange->cancel(now_, pull, commands);
  }
  carry_out(process, std::move(commands));
  if (mutation_.copies_go_while_given && is_given(process, which))
    return violation("a copy is freed while it can be reached");
  if (mutation_.copies_are_not_retired) return;
  at_process(process.id, 0ms, 5ms, [this, which](Process& again) {
    std::vector<RegionCommand> out;
    again.exchange->unregister(now_, which, out);
    again.published.erase(which);
    if (!again.exchange->has(which)) again.copies.erase(which);
    carry_out(again, std::move(out));
  });
}

void RegionWorld::reach(Process& process, const Reach& command) {
  if (plan_.transport_faults && !quiet_ && random_.chance(100)) return;  // no reply
  const bool fails = plan_.transport_faults && !quiet_ && random_.chance(100);
  at_process(process.id, 0ms, 5ms, [this, command, fails](Process& again) {
    const bool there =
        this->process(command.replica_holder).alive && !again.gone.contains(command.replica_holder);
    std::vector<RegionCommand> out;
    again.exchange->reached(now_, command.pull, command.replica_holder,
                            there && !fails ? plan_.paths : std::vector<DirectPath>{}, out);
    carry_out(again, std::move(out));
  });
}

void RegionWorld::crash(ProcessId id) {
  auto& dead = process(id);
  if (!std::exchange(dead.alive, false)) return;
  tell(id, "crashes");
  for (const auto& [pull, wanted] : dead.wanted) ref_dropped(object(wanted.object));
  dead.wanted.clear();
  dead.operations.clear();
  if (mutation_.peers_do_not_hear_of_deaths) return;
  for (auto& [other, row] : processes_) {
    if (other != id) tell_gone(other, id);
  }
}

void RegionWorld::tell_gone(ProcessId who, ProcessId gone) {
  at_process(who, 1ms, 50ms, [this, gone](Process& process) {
    if (!this->process(gone).alive) process.gone.insert(gone);
    tell(process.id, "hears that " + gone.brief() + " is gone");
    ways_[{process.id, gone}] = ways_[{gone, process.id}] = Way::open;
    std::vector<RegionCommand> out;
    process.exchange->peer_gone(now_, gone, this->process(gone).alive, out);
    carry_out(process, std::move(out));
  });
}

// Invalidates messages in both directions, and the access to exported memory.
void RegionWorld::break_link(ProcessId a, ProcessId b) {
  if (!process(a).alive || !process(b).alive) return;
  ++link_[{a, b}];
  ++link_[{b, a}];
  for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
    auto& process = this->process(one);
    tell(one, "link to " + other.brief() + " breaks");
    std::vector<RegionCommand> out;
    process.exchange->peer_gone(now_, other, true, out);
    process.exchange->supports_close(other);
    ways_[{one, other}] = Way::open;
    carry_out(process, std::move(out));
    wake(process);
  }
}

// ---- time ---------------------------------------------------------------------------------------

void RegionWorld::wake(Process& process) {
  const auto due = process.exchange->next_deadline();
  if (!due || (process.wakes && *process.wakes <= *due && *process.wakes > now_)) return;
  process.wakes = due;
  const auto wait = std::max<Duration>(*due - now_, 0ms);
  at_process(process.id, wait, wait, [this](Process& again) {
    again.wakes.reset();
    std::vector<RegionCommand> out;
    again.exchange->tick(now_, out);
    carry_out(again, std::move(out));
  });
}

void RegionWorld::check(Process& process) {
  const auto most = std::max(options_.max_receive_bytes, process.largest_batch);
  if (process.exchange->bytes_reserved() > most)
    violation("more bytes are reserved than the limit allows");
}

void RegionWorld::violation(std::string text) {
  if (wrong_.empty()) wrong_ = std::move(text);
}

std::string RegionWorld::run() {
  while (!events_.empty() && wrong_.empty()) {
    if (++steps_ > 2'000'000) return "it never ends";
    const auto event = events_.top();
    events_.pop();
    now_ = std::max(now_, event.at);
    event.what();
  }
  return wrong_.empty() ? at_the_end() : wrong_;
}

std::string RegionWorld::at_the_end() const {
  for (const auto& [id, process] : processes_) {
    if (!process.alive) continue;
    if (!process.wanted.empty()) return "a pull of " + id.brief() + " never ends";
    if (!process.exchange->is_idle()) {
      return id.brief() + " is not idle: " + std::to_string(process.exchange->pulls()) +
             " pulls, " + std::to_string(process.exchange->serves()) + " serves";
    }
    if (!process.operations.empty()) return "an operation of " + id.brief() + " never ends";
    const bool parts = plan_.idles && !faulty();
    if (parts && process.exchange->connections() != 0)
      return "a connection of " + id.brief() + " that idles stays open";
    if (parts && process.exchange->open_channels() != 0)
      return "a channel of " + id.brief() + " that idles stays open";
    if (process.exchange->bytes_reserved() != 0) return id.brief() + " keeps room";
    for (const auto& [object, row] : objects_) {
      if (row.dropped && process.exchange->has(object))
        return "an unwanted object is kept by " + id.brief();
    }
  }
  return {};
}

}  // namespace mobula::internal::transfer
