#include "tensor/exchange/core/tensor_pulls.h"

#include <algorithm>
#include <utility>

#include "base/coverage_mark.h"
#include "tensor/exchange/core/tensor_chunks.h"

namespace mobula::internal::transfer {
namespace {

const CoverageMark mark_oversize("regions.larger_than_all_space");
const CoverageMark mark_waits_for_space("regions.waits_for_space");
const CoverageMark mark_holder_resolved("regions.holders_resolved");
const CoverageMark mark_next_path("regions.next_path");
const CoverageMark mark_silent_holder("regions.holder_says_nothing");
const CoverageMark mark_no_progress("regions.no_progress");
const CoverageMark mark_copy_gone("regions.copy_was_gone");
const CoverageMark mark_wanted_again("regions.wanted_while_its_connection_is_closed");
const CoverageMark mark_part_in_line("regions.part_in_line");
const CoverageMark mark_disconnected("regions.connection_to_holder_broke");

}  // namespace

// ---- admission ----------------------------------------------------------------------------------

Result<std::vector<RegionPullId>> TensorPulls::pull(std::vector<TensorRequest> together,
                                                    bool arguments) {
  for (const auto& request : together) {
    if (request.paths.empty())
      return failure(ErrorCode::invalid_argument, "no path can move the tensor");
    if (request.part == 0) continue;
    const bool is_one = context_.options.chunk_bytes > 0 &&
                        request.part <= parts_of(request.size_bytes, context_.options.chunk_bytes);
    if (!is_one || std::ranges::any_of(request.paths, is_two_sided)) {
      return failure(ErrorCode::invalid_argument,
                     "the part is invalid, or its path takes only whole tensors");
    }
  }
  if (waiting_ + together.size() > context_.options.max_waiting) {
    return failure(ErrorCode::resource_exhausted,
                   std::to_string(waiting_) + " tensors wait for memory");
  }
  Batch batch;
  for (auto& request : together) {
    const RegionPullId id = ++last_pull_;
    batch.bytes += bytes_of(request);
    batch.pulls.push_back(id);
    Pull pull;
    for (const auto holder : request.holders) pull.holders.push_back({holder});
    if (!request.holders.empty()) pull.line = request.holders.front();
    pull.request = std::move(request);
    pull.since = context_.now;
    pulls_.emplace(id, std::move(pull));
  }
  waiting_ += batch.pulls.size();
  auto ids = batch.pulls;
  (arguments ? arguments_ : others_).push_back(std::move(batch));
  admit();
  if (waiting_ > 0) mark_waits_for_space.hit();
  return ids;
}

void TensorPulls::admit() {
  for (;;) {
    auto& line = arguments_.empty() ? others_ : arguments_;
    if (line.empty()) return;
    auto& first = line.front();
    const bool fits = reserved_ + first.bytes <= context_.options.max_receive_bytes;
    if (!fits && reserved_ > 0) return;
    if (!fits) mark_oversize.hit();
    const auto pulls = std::move(first.pulls);
    line.pop_front();
    waiting_ -= pulls.size();
    for (const auto id : pulls) {
      auto& pull = pulls_.at(id);
      reserved_ += bytes_of(pull.request);
      if (pull.request.part == 0) continue;
      pull.stage = Stage::in_line;
      chunk_lines_[pull.line].waiting.push_back(id);
    }
    std::set<ProcessId> lines;
    for (const auto id : pulls) {
      if (pulls_.at(id).request.part != 0) lines.insert(pulls_.at(id).line);
    }
    for (const auto id : pulls) {
      const auto at = pulls_.find(id);
      if (at != pulls_.end() && at->second.request.part == 0) begin(id, at->second);
    }
    for (const auto holder : lines) begin_chunks(holder);
  }
}

// A pull can end within `begin`, and its queue with it.
void TensorPulls::begin_chunks(ProcessId holder) {
  for (auto at = chunk_lines_.find(holder); at != chunk_lines_.end();
       at = chunk_lines_.find(holder)) {
    auto& line = at->second;
    if (line.waiting.empty()) {
      if (line.pending == 0) chunk_lines_.erase(at);
      return;
    }
    if (line.pending >= context_.options.max_pending_parts) return mark_part_in_line.hit();
    const auto id = line.waiting.front();
    line.waiting.pop_front();
    ++line.pending;
    begin(id, pulls_.at(id));
  }
}

void TensorPulls::begin(RegionPullId id, Pull& pull) {
  pull.began = context_.now;
  next_try(id, pull);
}

std::uint64_t TensorPulls::bytes_of(const TensorRequest& request) const {
  return span_of(request.size_bytes, context_.options.chunk_bytes, request.part).size_bytes;
}

void TensorPulls::finish(RegionPullId id, RegionOutcome outcome) {
  const auto at = pulls_.find(id);
  auto& pull = at->second;
  const bool had_space = pull.stage != Stage::queued;
  const bool is_part = pull.request.part != 0;
  const auto line = pull.line;
  if (pull.stage == Stage::in_line) {
    std::erase(chunk_lines_.at(line).waiting, id);
  } else if (had_space && is_part) {
    --chunk_lines_.at(line).pending;
  }
  forget_transfer(pull);
  PullEnded ended;
  ended.pull = id;
  ended.outcome = std::move(outcome);
  ended.attempts = std::move(pull.attempts);
  if (had_space) {
    ended.queued = (pull.stage == Stage::in_line ? context_.now : pull.began) - pull.since;
    if (std::holds_alternative<RegionsHere>(ended.outcome))
      ended.moved = context_.now - pull.moves_since;
    reserved_ -= bytes_of(pull.request);
  }
  context_.out->push_back(std::move(ended));
  pulls_.erase(at);
  if (!had_space) return;
  if (is_part) begin_chunks(line);
  admit();
}

void TensorPulls::cancel(RegionPullId id) {
  const auto at = pulls_.find(id);
  if (at == pulls_.end()) return;
  auto& pull = at->second;
  pull.unwanted = true;
  const Failure cancelled{ErrorCode::cancelled, "no reader needs it any more"};
  switch (pull.stage) {
    case Stage::queued:
      for (auto* line : {&arguments_, &others_}) {
        for (auto& batch : *line) {
          if (std::erase(batch.pulls, id) == 0) continue;
          batch.bytes -= bytes_of(pull.request);
          --waiting_;
        }
        std::erase_if(*line, [](const Batch& batch) { return batch.pulls.empty(); });
      }
      finish(id, cancelled);
      return admit();  // the rest of the batch may fit now
    case Stage::in_line:
    case Stage::closing:
    case Stage::reaching:
    case Stage::resolving: return finish(id, cancelled);
    case Stage::requesting:
      context_.send(pull.holders.front().process, PullTensorCancelled{pull.transfer, 0});
      return finish(id, cancelled);
    case Stage::moving:
    case Stage::stepping: return stop_moving(id, pull);
    case Stage::leaving: return;
  }
}

// ---- attempts -----------------------------------------------------------------------------------

void TensorPulls::next_try(RegionPullId id, Pull& pull) {
  while (!pull.holders.empty() &&
         !(pull.holders.front().keeps && pull.holders.front().paths.empty()) &&
         pull.holders.front().path >= paths_of(pull).size()) {
    pull.holders.pop_front();
  }
  if (pull.holders.empty()) return resolve_holders(id, pull);
  const auto& holder = pull.holders.front();
  if (!holder.keeps || !holder.paths.empty()) return request(id, pull);
  pull.stage = Stage::reaching;
  pull.due = context_.now + context_.options.shim_timeout;
  context_.out->push_back(Reach{id, holder.process});
}

// ---- requests -----------------------------------------------------------------------------------

void TensorPulls::resolve_holders(RegionPullId id, Pull& pull) {
  if (pull.lookups >= context_.options.lookups) return finish(id, pull.last);
  pull.stage = Stage::resolving;
  const auto pause = context_.options.lookup_backoff * (std::int64_t{1} << pull.lookups);
  if (pull.lookups++ > 0) {
    pull.due = context_.now + pause;
    return;
  }
  pull.due.reset();
  mark_holder_resolved.hit();
  context_.out->push_back(ResolveHolder{pull.request.object, pull.disconnected});
}

void TensorPulls::located(ObjectId object, const RegionsLocated& answer) {
  std::vector<RegionPullId> ids;
  for (const auto& [id, pull] : pulls_) {
    if (pull.request.object == object && pull.stage == Stage::resolving && !pull.due)
      ids.push_back(id);
  }
  for (const auto id : ids) {
    const auto at = pulls_.find(id);
    if (at == pulls_.end()) continue;
    auto& pull = at->second;
    pull.disconnected = {};
    if (answer.in_store) {
      finish(id, RegionsInStore{});
      continue;
    }
    if (answer.lost) {
      finish(id, Failure{ErrorCode::not_found, "its bytes are lost: " + pull.last.text});
      continue;
    }
    for (const auto holder : answer.holders) {
      if (!pull.gone.contains(holder)) pull.holders.push_back({holder});
    }
    next_try(id, pull);
  }
}

void TensorPulls::request(RegionPullId id, Pull& pull) {
  if (connections_.is_parting(pull.holders.front().process)) {
    mark_wanted_again.hit();
    pull.stage = Stage::closing;
    pull.due = context_.now + context_.options.answer_timeout;
    return;
  }
  pull.stage = Stage::requesting;
  pull.transfer = ++last_transfer_;
  transfers_[pull.transfer] = id;
  pull.requested_again = false;
  send_pull(pull);
}

void TensorPulls::send_pull(Pull& pull) {
  const auto& holder = pull.holders.front();
  connections_.used(holder.process);
  pull.due = context_.now +
             (holder.keeps ? context_.options.shim_timeout : context_.options.answer_timeout);
  context_.send(
      holder.process,
      PullTensorRequest{pull.transfer, pull.request.object, path_of(pull), pull.request.size_bytes,
                        pull.request.device_ordinal, holder.may_redirect, pull.request.part});
}

void TensorPulls::forget_transfer(Pull& pull) {
  transfers_.erase(pull.transfer);
  pull.transfer = 0;
}

void TensorPulls::note(Pull& pull, std::string refusal) {
  const auto& holder = pull.holders.front();
  pull.attempts.push_back({holder.process, path_of(pull), std::move(refusal)});
}

void TensorPulls::try_failed(Pull& pull, Failure why, bool holder_is_out, bool path_is_out) {
  note(pull, why.text);
  pull.last = std::move(why);
  auto& holder = pull.holders.front();
  if (holder_is_out || holder.keeps) {  // a replica holder gets one attempt
    if (!holder.disconnected || holder.keeps) {
      pull.gone.insert(holder.process);
    } else {
      pull.disconnected = holder.process;
    }
    pull.holders.pop_front();
  } else if (path_is_out || ++holder.failures >= context_.options.failures_per_path) {
    mark_next_path.hit();
    ++holder.path;
    holder.failures = 0;
  }
}

void TensorPulls::move_on(RegionPullId id, Pull& pull) {
  forget_transfer(pull);
  next_try(id, pull);
}

// ---- replies of holders -------------------------------------------------------------------------

TensorPulls::Pull* TensorPulls::pull_of(ProcessId from, TransferId transfer, RegionPullId& id) {
  const auto at = transfers_.find(transfer);
  if (at == transfers_.end()) return nullptr;
  auto& pull = pulls_.at(at->second);
  id = at->second;
  return pull.holders.front().process == from ? &pull : nullptr;
}

// Reports that a transfer is no longer needed. A connection that is closing needs no report.
void TensorPulls::send_cancelled(ProcessId from, TransferId transfer) {
  if (!connections_.is_parting(from)) context_.send(from, PullTensorCancelled{transfer, 0});
}

void TensorPulls::on(ProcessId from, const PullTensorReply& message) {
  RegionPullId id = 0;
  auto* pull = pull_of(from, message.transfer, id);
  // The reply to a repeated request can restart an offer that was rejected before.
  if (pull == nullptr) return send_cancelled(from, message.transfer);
  if (pull->stage != Stage::requesting) return;
  const auto path = path_of(*pull);
  pull->moves_since = context_.now;
  if (is_two_sided(path)) {
    pull->stage = Stage::stepping;
    pull->due.reset();
    pull->channel = {from, path, pull->request.device_ordinal, message.device_ordinal};
    steps_.raise_epoch(pull->channel, message.epoch);
    return steps_.begin({from, message.transfer, true},
                        {pull->channel, pull->request.object, id, pull->request.size_bytes});
  }
  pull->stage = Stage::moving;
  pull->operation = ++context_.last_operation;
  operations_[pull->operation] = id;
  pull->due = context_.now + context_.options.progress_timeout;
  context_.out->push_back(
      PullChunk{pull->operation, id, path, from, message.ticket, message.device_ordinal});
}

void TensorPulls::on(ProcessId from, const PullTensorQueued& message) {
  RegionPullId id = 0;
  auto* pull = pull_of(from, message.transfer, id);
  if (pull == nullptr) return send_cancelled(from, message.transfer);
  if (pull->stage != Stage::requesting) return;
  pull->requested_again = false;
  // for replica holders, too, after their first reply
  pull->due = context_.now + context_.options.answer_timeout;
}

void TensorPulls::on(ProcessId from, const PullTensorRejected& message) {
  RegionPullId id = 0;
  auto* pull = pull_of(from, message.transfer, id);
  if (pull == nullptr) return;
  if (pull->stage == Stage::requesting) return refused(id, *pull, message);
  if (pull->stage == Stage::stepping) steps_.raise_epoch(pull->channel, message.epoch);
  if (pull->stage != Stage::moving && pull->stage != Stage::stepping) return;
  pull->last = {ErrorCode::unavailable, std::string(to_string(message.why)) + ": " + message.text};
  stop_moving(id, *pull);
}

void TensorPulls::on(ProcessId from, const CloseConnectionReply& message) {
  if (!connections_.parted(from, message.round)) return;
  std::vector<RegionPullId> waiting;
  for (const auto& [id, pull] : pulls_) {
    if (pull.stage == Stage::closing && pull.holders.front().process == from) waiting.push_back(id);
  }
  context_.out->push_back(Part{from, !waiting.empty()});
  for (const auto id : waiting) request(id, pulls_.at(id));
}

// True if a pull from the holder is in progress, or if chunks of its objects are relayed here.
bool TensorPulls::wants_from(ProcessId holder) const {
  const bool wants = std::ranges::any_of(pulls_, [&](const auto& each) {
    const Pull& pull = each.second;
    return pull.transfer != 0 && pull.holders.front().process == holder;
  });
  return wants || serves_.keeps_of(holder);
}

void TensorPulls::refused(RegionPullId id, Pull& pull, const PullTensorRejected& message) {
  std::string text(to_string(message.why));
  if (!message.text.empty()) text += ": " + message.text;
  const Failure why{ErrorCode::unavailable, text};
  switch (message.why) {
    case RegionRefusal::stored:
      if (!pull.holders.front().keeps) return finish(id, RegionsInStore{});
      try_failed(pull, why, true, false);
      break;
    case RegionRefusal::gone:
      if (pull.holders.front().keeps) mark_copy_gone.hit();
      try_failed(pull, why, true, false);
      break;
    case RegionRefusal::redirected:
      pull.holders.front().may_redirect = false;  // without a replica, the request waits here
      follow(pull, message.others);
      break;
    case RegionRefusal::wrong_size: try_failed(pull, why, true, false); break;
    case RegionRefusal::no_path:
    case RegionRefusal::too_many: try_failed(pull, why, false, true); break;
    case RegionRefusal::failed: try_failed(pull, why, false, false); break;
  }
  move_on(id, pull);
}

// ---- transfers ----------------------------------------------------------------------------------

// Ends the transfer after a failure or a cancellation, once the transport no longer writes.
void TensorPulls::stop_moving(RegionPullId id, Pull& pull) {
  const bool steps = pull.stage == Stage::stepping;
  pull.stage = Stage::leaving;
  pull.due.reset();
  if (!steps) {
    context_.out->push_back(Cancel{pull.operation});
    return;
  }
  const SideKey side{pull.holders.front().process, pull.transfer, true};
  if (!steps_.has(side)) return quiet(id, pull);
  steps_.stop(side);  // `side_news` continues
}

void TensorPulls::quiet(RegionPullId id, Pull& pull) {
  const auto& holder = pull.holders.front();
  const bool two_sided = is_two_sided(path_of(pull));
  if (!holder.disconnected) {
    connections_.used(holder.process);
    context_.send(holder.process,
                  PullTensorCancelled{pull.transfer, two_sided ? steps_.epoch(pull.channel) : 0});
  }
  if (pull.unwanted)
    return finish(id, Failure{ErrorCode::cancelled,
                              "no reader needs it any "
                              "more"});
  if (holder.keeps) back_off(holder.process);
  const bool holder_is_out = holder.disconnected || pull.gone.contains(holder.process);
  try_failed(pull, pull.last, holder_is_out, false);
  move_on(id, pull);
}

bool TensorPulls::ended(OperationId operation, const std::optional<Failure>& failure) {
  const auto at = operations_.find(operation);
  if (at == operations_.end()) return false;
  const RegionPullId id = at->second;
  operations_.erase(at);
  auto& pull = pulls_.at(id);
  pull.operation = 0;
  if (pull.stage == Stage::moving && !failure) {
    complete(id, pull);
    return true;
  }
  if (failure && pull.stage == Stage::moving) pull.last = *failure;
  pull.stage = Stage::leaving;
  quiet(id, pull);
  return true;
}

bool TensorPulls::progressed(OperationId operation) {
  const auto at = operations_.find(operation);
  if (at == operations_.end()) return false;
  auto& pull = pulls_.at(at->second);
  if (pull.stage == Stage::moving) pull.due = context_.now + context_.options.progress_timeout;
  return true;
}

void TensorPulls::side_news(const SideNews& news) {
  const auto at = transfers_.find(news.key.transfer);
  if (at == transfers_.end()) return;
  const RegionPullId id = at->second;
  auto& pull = pulls_.at(id);
  if (pull.stage != Stage::stepping && pull.stage != Stage::leaving) return;
  if (pull.stage == Stage::stepping && !news.failure && !news.stopped) return complete(id, pull);
  if (news.failure && !pull.unwanted) pull.last = *news.failure;
  quiet(id, pull);
}

void TensorPulls::complete(RegionPullId id, Pull& pull) {
  const auto holder = pull.holders.front().process;
  const bool keeps =
      pull.request.keeps && pull.request.part != 0 &&
      serves_.keep(pull.request.object, pull.request.size_bytes, pull.request.part, holder);
  connections_.used(holder);
  context_.send(holder, PullTensorComplete{pull.transfer, keeps});
  note(pull, {});
  finish(id, RegionsHere{});
}

// ---- deadlines and deaths -----------------------------------------------------------------------

void TensorPulls::peer_gone(ProcessId peer, bool may_return) {
  connections_.gone(peer);
  std::vector<RegionPullId> ids;
  for (const auto& [id, pull] : pulls_) ids.push_back(id);
  for (const auto id : ids) {
    const auto at = pulls_.find(id);
    if (at == pulls_.end()) continue;
    auto& pull = at->second;
    const bool trying = !pull.holders.empty() && pull.holders.front().process == peer &&
                        pull.stage != Stage::queued && pull.stage != Stage::in_line &&
                        pull.stage != Stage::resolving;
    if (!may_return) pull.gone.insert(peer);
    std::erase_if(pull.holders, [&](const Holder& each) {
      if (each.process != peer || (trying && &each == &pull.holders.front())) return false;
      if (may_return && !each.keeps) pull.disconnected = peer;
      return true;
    });
    if (!trying) continue;
    pull.holders.front().disconnected = may_return;
    if (pull.stage == Stage::reaching) {
      pull.holders.pop_front();
      next_try(id, pull);
      continue;
    }
    if (may_return) mark_disconnected.hit();
    pull.last = {ErrorCode::unavailable, may_return
                                             ? "the connection to the process that has it broke"
                                             : "the process that held it has exited"};
    if (pull.stage == Stage::requesting || pull.stage == Stage::closing) {
      try_failed(pull, pull.last, true, false);
      move_on(id, pull);
    } else if (pull.stage != Stage::leaving) {
      stop_moving(id, pull);
    }
  }
}

void TensorPulls::tick() {
  std::vector<RegionPullId> late;
  for (const auto& [id, pull] : pulls_) {
    if (pull.due && *pull.due <= context_.now) late.push_back(id);
  }
  for (const auto id : late) {
    const auto at = pulls_.find(id);
    if (at == pulls_.end() || !at->second.due || *at->second.due > context_.now) continue;
    auto& pull = at->second;
    if (pull.stage == Stage::resolving) {
      pull.due.reset();
      mark_holder_resolved.hit();
      context_.out->push_back(ResolveHolder{pull.request.object, pull.disconnected});
    } else if (pull.stage == Stage::reaching) {
      reached(id, pull.holders.front().process, {});
    } else if (pull.stage == Stage::closing) {
      mark_silent_holder.hit();
      try_failed(pull, {ErrorCode::timed_out, "the holder does not reply"}, true, false);
      move_on(id, pull);
    } else if (pull.stage == Stage::requesting && !pull.requested_again) {
      pull.requested_again = true;
      send_pull(pull);
    } else if (pull.stage == Stage::requesting) {
      mark_silent_holder.hit();
      context_.send(pull.holders.front().process, PullTensorCancelled{pull.transfer, 0});
      if (pull.holders.front().keeps) back_off(pull.holders.front().process);
      try_failed(pull, {ErrorCode::timed_out, "the holder does not reply"}, true, false);
      move_on(id, pull);
    } else if (pull.stage == Stage::moving) {
      mark_no_progress.hit();
      pull.last = {ErrorCode::timed_out, "nothing has arrived for too long"};
      stop_moving(id, pull);
    }
  }
  connections_.tick([this](ProcessId holder) { return wants_from(holder); });
}

std::optional<Time> TensorPulls::next_deadline() const {
  std::optional<Time> due = connections_.next_deadline();
  for (const auto& [id, pull] : pulls_) {
    if (pull.due && (!due || *pull.due < *due)) due = pull.due;
  }
  return due;
}

}  // namespace mobula::internal::transfer
