#include "tensor/exchange/core/two_sided_steps.h"

#include <algorithm>

#include "base/coverage_mark.h"

namespace mobula::internal::transfer {
namespace {

const CoverageMark mark_late_step("regions.step_of_an_old_epoch");
const CoverageMark mark_no_answer("regions.other_side_never_had_its_turn");
const CoverageMark mark_silent("regions.two_sided_without_progress");
const CoverageMark mark_idle("regions.channel_that_idles_is_let_go");
const CoverageMark mark_in_line("regions.turn_waited_for");

}  // namespace

std::uint64_t TwoSidedSteps::epoch(const RegionChannel& channel) const {
  const auto at = channels_.find(channel);
  return at == channels_.end() ? 0 : at->second.epoch;
}

void TwoSidedSteps::raise_epoch(const RegionChannel& channel, std::uint64_t epoch) {
  auto& row = channels_[channel];
  if (epoch <= row.epoch) return;
  row = {epoch, false, context_.now};
  context_.out->push_back(
      DropChannel{channel.peer, channel.path, channel.device_ordinal, channel.peer_ordinal, epoch});
}

void TwoSidedSteps::begin(const SideKey& key, const SideTerms& terms) {
  const SideId id = ++last_;
  auto& side = sides_[id];
  side.key = key;
  side.terms = terms;
  by_key_[key] = id;
  if (!key.receives) return;
  if (terms.size_bytes == 0) return end(id, {key});
  begin_step(id, side);
}

void TwoSidedSteps::begin_step(SideId id, Side& side) {
  side.epoch = row_of(side).epoch;
  if (is_lower(side)) return request_turn(id, side);
  side.phase = Phase::waiting;
  // no timeout: the wait for a turn is unbounded, and a dead peer is detected otherwise
  side.due.reset();
  say(side, TwoSidedStep::Phase::wanted);
}

void TwoSidedSteps::say(const Side& side, TwoSidedStep::Phase phase) {
  context_.send(side.key.peer, TwoSidedStep{side.key.transfer, side.step, phase, side.opens,
                                            side.key.receives, side.epoch});
}

void TwoSidedSteps::request_turn(SideId id, Side& side) {
  side.phase = Phase::in_line;
  side.due.reset();
  if (turns_.request(side.terms.channel.device_ordinal, id)) return got_turn(id, side);
  mark_in_line.hit();
}

void TwoSidedSteps::got_turn(SideId id, Side& side) {
  const auto& channel = row_of(side);
  if (side.epoch != channel.epoch && side.key.receives && is_lower(side))
    side.epoch = channel.epoch;
  if (side.epoch != channel.epoch) {
    mark_late_step.hit();
    return fail(id, {ErrorCode::unavailable, "the channel has been reopened"});
  }
  if (side.key.receives) side.opens = !channel.open;
  if (is_lower(side)) {
    side.phase = Phase::has_turn;
    side.due = context_.now + context_.options.step_timeout;
    return say(side, TwoSidedStep::Phase::lower_ready);
  }
  issue(id, side);
  say(side, TwoSidedStep::Phase::go);
}

void TwoSidedSteps::issue(SideId id, Side& side) {
  side.phase = Phase::issued;
  side.operation = ++context_.last_operation;
  side.due = context_.now + context_.options.progress_timeout;
  operations_[side.operation] = id;
  IssueStep command;
  command.operation = side.operation;
  command.pull = side.terms.pull;
  command.object = side.terms.object;
  command.path = side.terms.channel.path;
  command.peer = side.key.peer;
  command.epoch = side.epoch;
  command.device_ordinal = side.terms.channel.device_ordinal;
  command.peer_ordinal = side.terms.channel.peer_ordinal;
  command.opens = side.opens;
  command.offset = side.moved;
  if (!side.opens)
    command.size_bytes = std::min(context_.options.step_bytes, side.terms.size_bytes - side.moved);
  context_.out->push_back(std::move(command));
}

void TwoSidedSteps::on(ProcessId from, const TwoSidedStep& message) {
  const auto at = by_key_.find({from, message.transfer, !message.from_receiver});
  if (at == by_key_.end()) return;  // stopped; the peer is notified separately
  const SideId id = at->second;
  auto& side = sides_.at(id);
  if (side.phase == Phase::issued && message.step == side.step + 1) {
    side.early = message;
    return;
  }
  if (side.phase == Phase::stopping || message.step != side.step) return;
  const auto& channel = row_of(side);
  if (message.epoch != channel.epoch) {
    mark_late_step.hit();
    if (message.epoch > channel.epoch) raise_epoch(side.terms.channel, message.epoch);
    // A step that both sides restarted continues; a step of an older epoch fails.
    if (message.epoch < channel.epoch || side.phase == Phase::issued) {
      return fail(id, {ErrorCode::unavailable, "the channel has been reopened"});
    }
  }
  switch (message.phase) {
    case TwoSidedStep::Phase::wanted:
      if (side.key.receives || !is_lower(side) || side.phase != Phase::idle) return;
      side.epoch = message.epoch;
      return request_turn(id, side);
    case TwoSidedStep::Phase::lower_ready:
      if (is_lower(side) || (side.phase != Phase::idle && side.phase != Phase::waiting)) return;
      side.epoch = message.epoch;
      if (message.from_receiver) side.opens = message.opens;
      return request_turn(id, side);
    case TwoSidedStep::Phase::go:
      if (!is_lower(side) || side.phase != Phase::has_turn) return;
      if (message.epoch != side.epoch)
        return fail(id, {ErrorCode::unavailable, "the channel has been reopened"});
      if (message.from_receiver) side.opens = message.opens;
      return issue(id, side);
  }
}

bool TwoSidedSteps::progressed(OperationId operation) {
  const auto at = operations_.find(operation);
  if (at == operations_.end()) return false;
  auto& side = sides_.at(at->second);
  if (side.phase == Phase::issued) side.due = context_.now + context_.options.progress_timeout;
  return true;
}

bool TwoSidedSteps::ended(OperationId operation, const std::optional<Failure>& failure) {
  const auto at = operations_.find(operation);
  if (at == operations_.end()) return false;
  const SideId id = at->second;
  operations_.erase(at);
  auto& side = sides_.at(id);
  side.operation = 0;
  if (side.phase == Phase::stopping) {
    SideNews news{side.key, std::move(side.why), false};
    news.stopped = !news.failure;
    break_channel(side);
    end(id, std::move(news));
  } else if (failure) {
    fail(id, *failure);
  } else {
    step_done(id, side);
  }
  return true;
}

void TwoSidedSteps::step_done(SideId id, Side& side) {
  auto& channel = row_of(side);
  if (side.opens) {
    if (channel.epoch == side.epoch) channel.open = true;
  } else {
    side.moved += std::min(context_.options.step_bytes, side.terms.size_bytes - side.moved);
  }
  ++side.step;
  side.opens = false;
  side.due.reset();
  side.phase = Phase::idle;
  const bool receives = side.key.receives;
  if (side.is_last) return end(id, {side.key, std::nullopt, true});
  if (receives && side.moved == side.terms.size_bytes) return end(id, {side.key});
  pass_turn(id, side.terms.channel.device_ordinal);
  const auto at = sides_.find(id);
  if (at == sides_.end()) return;  // ended by `pass_turn`
  if (receives) return begin_step(id, at->second);
  if (const auto early = std::exchange(at->second.early, std::nullopt))
    on(at->second.key.peer, *early);
}

void TwoSidedSteps::break_channel(const Side& side) {
  const auto& channel = row_of(side);
  if (channel.epoch == side.epoch) raise_epoch(side.terms.channel, channel.epoch + 1);
}

void TwoSidedSteps::fail(SideId id, Failure why) {
  auto& side = sides_.at(id);
  if (side.operation != 0) {  // the operation must end first
    context_.out->push_back(Cancel{side.operation});
    side.phase = Phase::stopping;
    side.due.reset();
    side.why = std::move(why);
    return;
  }
  const auto key = side.key;
  break_channel(side);
  end(id, {key, std::move(why)});
}

void TwoSidedSteps::end(SideId id, SideNews news) {
  const auto at = sides_.find(id);
  const auto device_ordinal = at->second.terms.channel.device_ordinal;
  row_of(at->second).used = context_.now;
  by_key_.erase(at->second.key);
  sides_.erase(at);
  news_.push_back(std::move(news));
  pass_turn(id, device_ordinal);
}

void TwoSidedSteps::pass_turn(SideId id, std::uint32_t device_ordinal) {
  const auto next = turns_.leave(device_ordinal, id);
  if (!next) return;
  if (const auto claim = claiming_.find(*next); claim != claiming_.end()) {
    context_.out->push_back(TurnTaken{claim->second});
    return;
  }
  got_turn(*next, sides_.at(*next));
}

void TwoSidedSteps::claim(std::uint32_t device_ordinal, std::uint64_t claim) {
  const auto [at, fresh] = claims_.try_emplace(claim);
  if (!fresh) return;
  at->second = {++last_, device_ordinal};
  claiming_.emplace(last_, claim);
  if (turns_.request(device_ordinal, last_)) {
    context_.out->push_back(TurnTaken{claim});
  } else {
    mark_in_line.hit();
  }
}

void TwoSidedSteps::unclaim(std::uint64_t claim) {
  const auto at = claims_.find(claim);
  if (at == claims_.end()) return;
  const Claim gone = at->second;
  claims_.erase(at);
  claiming_.erase(gone.taker);
  pass_turn(gone.taker, gone.device_ordinal);
}

void TwoSidedSteps::stop(const SideKey& key) {
  const auto at = by_key_.find(key);
  if (at == by_key_.end()) return;
  const SideId id = at->second;
  auto& side = sides_.at(id);
  if (side.phase == Phase::stopping) return;
  if (side.phase == Phase::issued) {
    context_.out->push_back(Cancel{side.operation});
    side.phase = Phase::stopping;
    side.due.reset();
    return;
  }
  // The peer may have issued its half, or may be about to issue it.
  if (side.phase == Phase::has_turn) break_channel(side);
  end(id, {key, std::nullopt, true});
}

void TwoSidedSteps::finish(const SideKey& key) {
  const auto at = by_key_.find(key);
  if (at == by_key_.end()) return;
  auto& side = sides_.at(at->second);
  if (side.phase != Phase::issued) return stop(key);
  side.is_last = true;
}

void TwoSidedSteps::stop_all_with(ProcessId peer) {
  std::vector<SideKey> keys;
  for (const auto& [key, id] : by_key_) {
    if (key.peer == peer) keys.push_back(key);
  }
  for (const auto& key : keys) stop(key);
}

bool TwoSidedSteps::is_used(const RegionChannel& channel) const {
  return std::ranges::any_of(
      sides_, [&](const auto& each) { return each.second.terms.channel == channel; });
}

std::optional<Time> TwoSidedSteps::idle_at(const ChannelRow& row) const {
  if (!row.open || context_.options.idle_timeout <= Duration(0)) return std::nullopt;
  return row.used + context_.options.idle_timeout;
}

std::size_t TwoSidedSteps::open_channels() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(channels_, [](const auto& each) { return each.second.open; }));
}

void TwoSidedSteps::tick() {
  for (auto& [channel, row] : channels_) {
    const auto due = idle_at(row);
    if (!due || *due > context_.now) continue;
    row.used = context_.now;
    if (is_used(channel)) continue;
    mark_idle.hit();
    raise_epoch(channel, row.epoch + 1);
  }
  std::vector<SideId> late;
  for (const auto& [id, side] : sides_) {
    if (side.due && *side.due <= context_.now) late.push_back(id);
  }
  for (const auto id : late) {
    const auto at = sides_.find(id);
    if (at == sides_.end() || !at->second.due || *at->second.due > context_.now) continue;
    const bool issued = at->second.phase == Phase::issued;
    (issued ? mark_silent : mark_no_answer).hit();
    fail(id, {ErrorCode::timed_out,
              issued ? "nothing has moved for too long, though both sides were at it"
                     : "the other side's device was never free"});
  }
}

std::optional<Time> TwoSidedSteps::next_deadline() const {
  std::optional<Time> due;
  for (const auto& [id, side] : sides_) {
    if (side.due && (!due || *side.due < *due)) due = side.due;
  }
  for (const auto& [channel, row] : channels_) {
    const auto idle = idle_at(row);
    if (idle && (!due || *idle < *due)) due = idle;
  }
  return due;
}

}  // namespace mobula::internal::transfer
