#include "transfer/core/region_world.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "transfer/core/region_story.h"

namespace mobula::internal::transfer {
RegionWorld::RegionWorld(std::uint64_t seed, const RegionPlan& plan, RegionMutation mutation)
    : plan_(plan), mutation_(std::move(mutation)), random_(seed), times_(random_.fork("times")) {
  options_.chunk_bytes = 64 << 10;
  options_.redirect_from_bytes = 100 << 10;
  if (plan.pattern == Pattern::broadcast) options_.max_serves_over_network = 1;
  if (plan.max_receive_bytes > 0) options_.max_receive_bytes = plan.max_receive_bytes;
  for (int i = 1; i <= plan.processes; ++i) start(ProcessId::of(static_cast<unsigned>(i)));
  add_work();
  if (faulty()) add_faults();
}

void RegionWorld::at(Time when, std::function<void()> what) { events_.push({when, ++numbers_, std::move(what)}); }

void RegionWorld::after(Duration low, Duration high, std::function<void()> what) {
  at(now_ + times_.between(low, high), std::move(what));
}

void RegionWorld::at_process(ProcessId id, Duration low, Duration high, std::function<void(Process&)> what) {
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
  process.exchange = std::make_unique<RegionExchange>(mutation_.self ? mutation_.self(id) : id, options);
  processes_.emplace(id, std::move(process));
}

// ---- work --------------------------------------------------------------------------------------

void RegionWorld::add_work() {
  Random work = random_.fork("work");
  std::vector<ObjectId> ids;
  for (int i = 0; i < plan_.objects; ++i) {
    Object object;
    object.id = ObjectId::of(static_cast<unsigned>(1000 + i));
    const int maker = plan_.pattern == Pattern::broadcast ? 1 : 1 + i % plan_.processes;
    object.maker = ProcessId::of(static_cast<unsigned>(maker));
    object.size_bytes = work.chance(100) ? 0 : work.chance(500) ? work.below(1000) : work.below(600 << 10);
    if (plan_.pattern == Pattern::broadcast) object.size_bytes = 300 << 10;
    object.device = static_cast<std::uint32_t>(work.below(plan_.devices));
    ids.push_back(object.id);
    objects_.emplace(object.id, object);
    at_process(object.maker, 0ms, 1ms, [this, made = object](Process& process) {
      const auto id = made.id;
      std::vector<RegionCommand> out;
      process.exchange->publish(now_, id, made.size_bytes, made.device, out);
      process.device_of[id] = made.device;
      process.published.insert(id);
      carry_out(process, std::move(out));
    });
  }
  const auto plan_read = [&](int reader, std::vector<std::size_t> which, Duration when) {
    for (const auto each : which) ++objects_.at(ids[each]).refs;
    const bool arguments = work.chance(500);
    at_process(ProcessId::of(static_cast<unsigned>(reader)), when, when, [this, which, arguments](Process& process) {
      want(process.id, which, arguments);
    });
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const int maker = static_cast<int>(objects_.at(ids[i]).maker.bits().low);
    const auto when = work.between(2ms, 40ms);
    switch (plan_.pattern) {
      case Pattern::ring: plan_read(1 + maker % plan_.processes, {i}, when); break;
      case Pattern::opposite: plan_read(maker % 2 == 1 ? std::min(maker + 1, plan_.processes) : maker - 1, {i}, when); break;
      case Pattern::all_to_all:
      case Pattern::broadcast:
        for (int reader = 1; reader <= plan_.processes; ++reader) {
          if (reader != maker) plan_read(reader, {i}, work.between(2ms, 40ms));
        }
        break;
      case Pattern::random: {
        const auto reads = work.between(1, 4);
        for (std::int64_t k = 0; k < reads; ++k) {
          std::vector<std::size_t> which{i};
          while (work.chance(400)) which.push_back(work.below(ids.size()));
          const auto reader = 1 + static_cast<int>(work.below(static_cast<std::uint64_t>(plan_.processes)));
          plan_read(reader, which, work.between(2ms, 200ms));
        }
      }
    }
  }
}

void RegionWorld::want(ProcessId reader, const std::vector<std::size_t>& which, bool arguments) {
  auto& process = this->process(reader);
  std::vector<RegionWish> together;
  std::uint64_t bytes = 0;
  for (const auto each : which) {
    auto& object = objects_.at(ObjectId::of(static_cast<unsigned>(1000 + each)));
    if (object.maker == reader || object.dropped) {
      ref_dropped(object);
      continue;
    }
    RegionWish wish;
    wish.object = object.id;
    wish.size_bytes = object.size_bytes;
    if (random_.chance(700)) wish.holders = {object.maker};
    wish.paths = plan_.paths;
    wish.keeps = plan_.pattern == Pattern::broadcast || random_.chance(300);
    wish.lane = static_cast<std::uint32_t>(random_.below(plan_.devices));
    if (mutation_.lanes_by_pull) wish.lane = static_cast<std::uint32_t>(random_.below(1000));
    bytes += wish.size_bytes;
    together.push_back(std::move(wish));
  }
  if (together.empty()) return;
  process.largest_batch = std::max(process.largest_batch, bytes);
  std::vector<RegionCommand> out;
  const auto wishes = together;
  const auto pulls = process.exchange->want(now_, std::move(together), arguments, out);
  if (!pulls) return violation("a wish is refused: " + pulls.error().text);
  for (std::size_t i = 0; i < pulls->size(); ++i) {
    process.wanted[(*pulls)[i]] = {wishes[i].object, wishes[i].lane % plan_.devices, false};
    if (!plan_.impatient || !random_.chance(200)) continue;
    at_process(reader, 0ms, 60ms, [this, pull = (*pulls)[i]](Process& again) {
      const auto known = again.wanted.find(pull);
      if (known == again.wanted.end()) return;
      known->second.unwanted = true;
      std::vector<RegionCommand> commands;
      again.exchange->unwant(now_, pull, commands);
      carry_out(again, std::move(commands));
    });
  }
  carry_out(process, std::move(out));
}

void RegionWorld::add_faults() {
  Random faults = random_.fork("faults");
  const auto some_process = [&] {
    return ProcessId::of(static_cast<unsigned>(1 + faults.below(static_cast<std::uint64_t>(plan_.processes))));
  };
  const auto soon = [&] { return now_ + faults.between(2ms, 300ms); };
  if (plan_.crashes) {
    for (auto left = faults.between(1, 2); left > 0; --left) {
      at(soon(), [this, id = some_process()] { crash(id); });
    }
  }
  if (plan_.stops) {
    for (auto left = faults.between(1, 3); left > 0; --left) {
      const auto span = faults.chance(500) ? faults.between(1ms, 500ms) : faults.between(1s, 60s);
      at(soon(), [this, id = some_process(), span] {
        tell(id, "stops for " + std::to_string(span / 1ms) + " ms");
        process(id).stopped_until = now_ + span;
      });
    }
  }
  if (plan_.link_breaks) {
    for (auto left = faults.between(1, 3); left > 0; --left) {
      const auto a = some_process(), b = some_process();
      if (a != b) at(soon(), [this, a, b] { break_link(a, b); });
    }
  }
  if (plan_.impatient) {
    for (auto& [id, object] : objects_) {
      if (faults.chance(200)) at(soon(), [this, id = id] { drop(this->object(id)); });
      if (!faults.chance(200)) continue;
      at_process(object.maker, 2ms, 200ms, [this, id = id](Process& process) {
        std::vector<RegionCommand> out;
        process.exchange->evacuate(now_, id, out);
        carry_out(process, std::move(out));
      });
    }
  }
  at(now_ + 120s, [this] { quiet_ = true; });
}

// ---- commands ----------------------------------------------------------------------------------

void RegionWorld::carry_out(Process& process, std::vector<RegionCommand> commands) {
  for (auto& each : commands) {
    if (!wrong_.empty()) return;
    if (mutation_.command && !mutation_.command(process.id, each)) continue;
    act(process, each);
  }
}

void RegionWorld::tell(ProcessId who, std::string what) {
  told_.push_back(std::to_string((now_ - Time::from_ns(1'000'000'000)).count() / 1000) + " us  " + who.brief() + "  " +
                  std::move(what));
  if (told_.size() > 400) told_.pop_front();
}

std::string RegionWorld::story() const {
  std::string all;
  for (const auto& each : told_) all += each + "\n";
  return all;
}

void RegionWorld::act(Process& process, RegionCommand& command) {
  const auto id = process.id;
  tell(id, describe(command));
  if (const auto* each = std::get_if<SendRegions>(&command)) {
    send(process, each->to, each->message);
  } else if (const auto* wanted = std::get_if<Export>(&command)) {
    if (process.freed.contains(wanted->object)) violation("freed bytes are exported");
    const bool fails = plan_.transport_faults && !quiet_ && random_.chance(100);
    if (!fails) {
      Operation made;
      made.kind = Operation::Kind::exported;
      made.object = wanted->object;
      made.peer = wanted->peer;
      process.operations[wanted->operation] = std::move(made);
    }
    at_process(id, 0ms, 2ms, [this, operation = wanted->operation, fails](Process& again) {
      std::vector<RegionCommand> out;
      if (fails) {
        again.exchange->exported(now_, operation, failure(ErrorCode::unavailable, "an export failed"), out);
      } else {
        again.exchange->exported(now_, operation, std::to_string(operation), out);
      }
      carry_out(again, std::move(out));
    });
  } else if (const auto* back = std::get_if<Unexport>(&command)) {
    unexport(process, back->operation);
  } else if (const auto* reads = std::get_if<Fetch>(&command)) {
    fetch(process, *reads);
  } else if (const auto* half = std::get_if<Issue>(&command)) {
    issue(process, *half);
  } else if (const auto* stop = std::get_if<Cancel>(&command)) {
    cancel(process, stop->operation);
  } else if (const auto* freed = std::get_if<FreeRegions>(&command)) {
    free(process, freed->object);
  } else if (const auto* store = std::get_if<StoreRegions>(&command)) {
    at_process(id, 1ms, 20ms, [this, object = store->object](Process& again) {
      std::optional<Failure> failed;
      if (plan_.transport_faults && !quiet_ && random_.chance(300)) failed = Failure{ErrorCode::resource_exhausted, "no room"};
      if (!failed) this->object(object).in_store = true;
      std::vector<RegionCommand> out;
      again.exchange->stored(now_, object, failed, out);
      carry_out(again, std::move(out));
    });
  } else if (const auto* look = std::get_if<LookUp>(&command)) {
    at_process(id, 1ms, 5ms, [this, which = look->object](Process& again) {
      RegionsLocated answer;
      answer.in_store = object(which).in_store;
      for (const auto& [other, row] : processes_) {
        if (row.alive && row.published.contains(which) && other != again.id) answer.holders.push_back(other);
      }
      answer.lost = !answer.in_store && answer.holders.empty();
      std::vector<RegionCommand> out;
      again.exchange->located(now_, which, answer, out);
      carry_out(again, std::move(out));
    });
  } else if (const auto* ended = std::get_if<PullEnded>(&command)) {
    pull_ended(process, *ended);
  }
}

void RegionWorld::send(Process& from, ProcessId to, const RegionMessage& message) {
  if (!processes_.contains(to)) return;
  const std::pair key{from.id, to};
  auto& last = last_arrival_[key];
  last = std::max(last, now_ + times_.between(0ms, 3ms));
  at(last, [this, key, message, generation = link_[key]] {
    const auto wait = process(key.second).stopped_until - now_;
    const auto hear = [this, key, message, generation](Process& process) {
      if (generation != link_[key] || process.gone.contains(key.first)) return;
      std::vector<RegionCommand> out;
      process.exchange->heard(now_, key.first, message, out);
      carry_out(process, std::move(out));
    };
    at_process(key.second, std::max<Duration>(wait, 0ms), std::max<Duration>(wait, 0ms), hear);
  });
}

// ---- transports --------------------------------------------------------------------------------

void RegionWorld::fetch(Process& process, const Fetch& command) {
  Operation reads;
  reads.pull = command.pull;
  reads.peer = command.holder;
  reads.source = std::stoull(command.ticket);
  reads.object = process.wanted.at(command.pull).object;
  reads.link = link_[{command.holder, process.id}];
  process.operations[command.operation] = reads;
  if (plan_.transport_faults && !quiet_ && random_.chance(100)) return;  // it hangs
  at_process(process.id, 0ms, 30ms, [this, operation = command.operation](Process& again) { fetch_done(again, operation); });
}

void RegionWorld::fetch_done(Process& process, OperationId operation) {
  const auto at = process.operations.find(operation);
  if (at == process.operations.end()) return;
  const auto reads = at->second;
  if (reads.cancelled) return;
  auto& holder = this->process(reads.peer);
  const auto source = holder.operations.find(reads.source);
  const bool there = holder.alive && source != holder.operations.end() && source->second.object == reads.object &&
                     !holder.freed.contains(reads.object);
  const bool fails = !there || (plan_.transport_faults && !quiet_ && random_.chance(100));
  process.operations.erase(at);
  if (!fails) served_[reads.peer] += object(reads.object).size_bytes;
  std::vector<RegionCommand> out;
  process.exchange->ended(now_, operation, fails ? std::optional(failure(ErrorCode::unavailable, "it broke")) : std::nullopt, out);
  carry_out(process, std::move(out));
}

void RegionWorld::issue(Process& process, const Issue& command) {
  const auto device = command.pull == 0 ? process.device_of.at(command.object) : process.wanted.at(command.pull).device;
  for (const auto& [number, other] : process.operations) {
    const bool here = other.kind == Operation::Kind::issue && other.device == device;
    if (here) return violation("two operations at once on one device");
  }
  if (command.pull == 0 && process.freed.contains(command.object)) return violation("freed bytes are sent");
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

// Both sides are at it, at the same thing: it goes on. One alone waits for ever.
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
    if (a.opens != b.opens || a.offset != b.offset || a.size_bytes != b.size_bytes || a.object != b.object ||
        (a.pull == 0) == (b.pull == 0)) {
      return violation("two sides of one channel do different things");
    }
    if (broken_.contains(channel(process, a))) return violation("a broken channel goes on");
    if (!a.opens && !opened_.contains(channel(process, a))) return violation("a channel is used that was never opened");
    if (a.opens && !opened_.insert(channel(process, a)).second) return violation("a channel is opened twice");
    mine.matched = theirs.matched = true;
    const bool fails = plan_.transport_faults && !quiet_ && random_.chance(80);
    if (fails && random_.chance(500)) return;  // it hangs
    if (fails) {
      at_process(process.id, 0ms, 5ms, [this, operation](Process& again) {
        const auto known = again.operations.find(operation);
        if (known == again.operations.end() || known->second.cancelled) return;
        broken_.insert(channel(again, known->second.issue));
        again.operations.erase(known);
        std::vector<RegionCommand> out;
        again.exchange->ended(now_, operation, failure(ErrorCode::unavailable, "it broke"), out);
        carry_out(again, std::move(out));
      });
      return;
    }
    at_process(process.id, 0ms, 5ms, [this, operation](Process& again) { issue_done(again.id, operation); });
    at_process(peer.id, 0ms, 5ms, [this, id = peer.id, number = number](Process&) { issue_done(id, number); });
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
  if (at == process.operations.end()) return;  // its end is on its way
  at->second.cancelled = true;
  if (at->second.kind == Operation::Kind::issue) broken_.insert(channel(process, at->second.issue));
  if (mutation_.leaves_before_quiet && at->second.kind == Operation::Kind::fetch) {
    // What it should do when it is quiet.
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
  if (at == process.operations.end()) return violation("what is not exported is withdrawn");
  auto& made = at->second;
  const auto& reader = this->process(made.peer);
  for (const auto& [number, other] : reader.operations) {
    const bool reads = other.kind == Operation::Kind::fetch && other.peer == process.id && other.source == operation;
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
}

void RegionWorld::pull_ended(Process& process, const PullEnded& ended) {
  const auto at = process.wanted.find(ended.pull);
  if (at == process.wanted.end()) return violation("a pull ends twice");
  const auto wanted = at->second;
  process.wanted.erase(at);
  for (const auto& [number, each] : process.operations) {
    if (each.pull == ended.pull) violation("a pull has ended, and something still writes for it");
  }
  if (std::holds_alternative<RegionsHere>(ended.outcome)) {
    ++copies_;
    if (process.exchange->has(wanted.object) && process.published.insert(wanted.object).second) {
      process.device_of[wanted.object] = wanted.device;
    }
  } else if (const auto* failed = std::get_if<Failure>(&ended.outcome)) {
    ++failures_;
    if (!faulty()) violation("a pull fails though nothing is wrong: " + failed->text);
  } else if (!object(wanted.object).in_store) {
    violation("a pull is sent to the store, which does not have it");
  }
  if (object(wanted.object).dropped) retire(process, wanted.object);
  ref_dropped(object(wanted.object));
}

// ---- deaths ------------------------------------------------------------------------------------

void RegionWorld::ref_dropped(Object& object) {
  if (--object.refs == 0) after(0ms, 10ms, [this, id = object.id] { drop(this->object(id)); });
}

void RegionWorld::drop(Object& object) {
  if (std::exchange(object.dropped, true)) return;
  for (auto& [id, row] : processes_) retire(row, object.id);
}

// Once nothing in the process wants it any more.
void RegionWorld::retire(Process& process, ObjectId which) {
  at_process(process.id, 0ms, 5ms, [this, which](Process& again) {
    for (const auto& [pull, wanted] : again.wanted) {
      if (wanted.object == which) return;  // its end comes back to this
    }
    std::vector<RegionCommand> out;
    again.exchange->retire(now_, which, out);
    again.published.erase(which);
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
    std::vector<RegionCommand> out;
    process.exchange->peer_gone(now_, gone, out);
    carry_out(process, std::move(out));
  });
}

// What was said is void on both sides, and what was exported cannot be reached any more.
void RegionWorld::break_link(ProcessId a, ProcessId b) {
  if (!process(a).alive || !process(b).alive) return;
  ++link_[{a, b}];
  ++link_[{b, a}];
  for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
    auto& process = this->process(one);
    tell(one, "link to " + other.brief() + " breaks");
    std::vector<RegionCommand> out;
    process.exchange->peer_gone(now_, other, out);
    carry_out(process, std::move(out));
    wake(process);
  }
}

// ---- time --------------------------------------------------------------------------------------

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
  if (process.exchange->bytes_reserved() > most) violation("more is reserved than there is room");
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
      return id.brief() + " is not idle: " + std::to_string(process.exchange->pulls()) + " pulls, " +
             std::to_string(process.exchange->serves()) + " serves";
    }
    if (!process.operations.empty()) return "an operation of " + id.brief() + " never ends";
    if (process.exchange->bytes_reserved() != 0) return id.brief() + " keeps room";
    for (const auto& [object, row] : objects_) {
      if (row.dropped && process.exchange->has(object)) return "what nobody wants is kept by " + id.brief();
    }
  }
  return {};
}

}  // namespace mobula::internal::transfer
