#include "worker/core/transfers/pull_queue.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"

namespace mobula::internal::transfer {
namespace {

using Stage = Pull::Stage;
using State = Source::State;

const CoverageMark mark_second_source("transfer.chunk_of_a_second_source");
const CoverageMark mark_partial("transfer.chunk_relayed_during_a_pull");
const CoverageMark mark_again("transfer.chunk_fetched_again");
const CoverageMark mark_stalled("transfer.no_source_has_the_rest");
const CoverageMark mark_budget("transfer.bytes_in_flight_at_their_limit");
const CoverageMark mark_late("transfer.chunk_too_late");
const CoverageMark mark_recalled("transfer.leave_to_read_taken_back");

// every n-th admission takes the oldest pull; the others prefer arguments
constexpr std::uint64_t oldest_first_every = 4;

void take_earlier(std::optional<Time>& first, std::optional<Time> other) {
  if (other && (!first || *other < *first)) first = other;
}

std::string name_of(const PullKey& key) {
  return key.object.empty() ? fmt::format("program file {}", hex_of(key.file))
                            : fmt::format("object {}", key.object.brief());
}

}  // namespace

// ---- requests -----------------------------------------------------------------------------------

Result<PullId> PullQueue::want(Time now, ObjectRequest request, std::vector<PullCommand>& out) {
  if (const auto at = by_key_.find(request.key); at != by_key_.end()) {
    const PullId id = at->second;
    Pull& pull = pulls_.at(id);
    ++pull.requests;
    for (const NodeId source : request.sources) pull.add_source(source);
    if (request.argument) hurry(id);
    settle(now, id, out);
    return id;
  }
  if (request.sources.empty()) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("pull of {}: no node is known to have it", name_of(request.key)));
  }
  const std::size_t waiting = waiting_arguments_.size() + waiting_others_.size();
  if (waiting >= options_.max_waiting) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("pull of {}: {} pulls wait already on this node",
                               name_of(request.key), waiting));
  }
  const PullId id = ++last_pull_;
  (request.argument ? waiting_arguments_ : waiting_others_).insert(id);
  by_key_.emplace(request.key, id);
  pulls_.insert(id, Pull(std::move(request), options_.chunk_bytes)).first->wanted = now;
  admit(out);
  return id;
}

void PullQueue::unwant(Time now, PullId id, std::vector<PullCommand>& out) {
  Pull* pull = pulls_.find(id);
  if (pull == nullptr || pull->stage == Stage::ending || --pull->requests > 0) return;
  cancel(now, id, out);
}

void PullQueue::cancel(Time now, PullId id, std::vector<PullCommand>& out) {
  const Pull* pull = pulls_.find(id);
  if (pull == nullptr || pull->stage == Stage::ending) return;
  end(id, failure(ErrorCode::cancelled, "no process needs it any more"), out);
  assign(now, out);
}

void PullQueue::hurry(PullId id) {
  Pull* pull = pulls_.find(id);
  if (pull == nullptr) return;
  pull->argument = true;
  if (waiting_others_.erase(id) > 0) waiting_arguments_.insert(id);
}

void PullQueue::add_source(Time now, PullId id, NodeId node, std::vector<PullCommand>& out) {
  Pull* pull = pulls_.find(id);
  if (pull == nullptr || pull->stage == Stage::ending) return;
  pull->add_source(node);
  settle(now, id, out);
}

// ---- admission ----------------------------------------------------------------------------------

void PullQueue::admit(std::vector<PullCommand>& out) {
  while (running_ < options_.max_pulls) {
    const bool oldest = admissions_ % oldest_first_every == oldest_first_every - 1;
    std::set<PullId>* from = waiting_arguments_.empty() ? &waiting_others_ : &waiting_arguments_;
    if (from->empty()) return;
    if (oldest && !waiting_others_.empty() && *waiting_others_.begin() < *from->begin()) {
      from = &waiting_others_;
    }
    const PullId id = *from->begin();
    from->erase(from->begin());
    ++admissions_;
    ++running_;
    Pull& pull = pulls_.at(id);
    pull.stage = Stage::placing;
    out.push_back(BeginPull{id, pull.key, pull.size_bytes});
  }
}

void PullQueue::placed(Time now, PullId id, std::vector<PullCommand>& out) {
  Pull* pull = pulls_.find(id);
  if (pull == nullptr || (pull->stage != Stage::placing && pull->stage != Stage::parked)) return;
  if (!pull->counted()) ++running_;
  pull->stage = Stage::running;
  active_.insert(id);
  settle(now, id, out);
}

void PullQueue::waits_for_space(Time, PullId id, std::vector<PullCommand>& out) {
  Pull* pull = pulls_.find(id);
  if (pull == nullptr || pull->stage != Stage::placing) return;
  pull->stage = Stage::parked;
  --running_;
  admit(out);
}

void PullQueue::refused(Time, PullId id, Failure why, std::vector<PullCommand>& out) {
  Pull* pull = pulls_.find(id);
  if (pull == nullptr || (pull->stage != Stage::placing && pull->stage != Stage::parked)) return;
  end(id, std::move(why), out);
}

// ---- replies of nodes ---------------------------------------------------------------------------

void PullQueue::answered(Time now, NodeId from, const PullReply& ready,
                         std::vector<PullCommand>& out) {
  const auto at = requests_.find(ready.pull);
  if (at == requests_.end()) return;
  const PullId id = at->second;
  Pull& pull = pulls_.at(id);
  Source* source = pull.source_of(from);
  if (source == nullptr || source->request != ready.pull) return;
  if (source->state == State::open && ready.failure) {
    mark_recalled.hit();
    pull.failure = ready.failure;
    close(pull, *source, out);
  } else if (source->state == State::requested) {
    source->due.reset();
    const bool sound =
        ready.size_bytes >= 0 && static_cast<std::uint64_t>(ready.size_bytes) == pull.size_bytes;
    if (ready.failure) {
      pull.failure = ready.failure;
      requests_.erase(at);
      source->state = State::over;
      const bool busy = ready.failure->code == ErrorCode::resource_exhausted;
      if (busy && source->busy_rounds++ < options_.busy_rounds) {
        source->state = State::busy;
        source->due = now + options_.busy_backoff;
      } else if (busy) {
        pull.failure->code = ErrorCode::unavailable;  // the local node has free resources
      }
    } else if (!sound) {
      pull.failure =
          failure(ErrorCode::corrupt,
                  fmt::format("pull of {} from node {}: it has {} bytes there, expected {}",
                              name_of(pull.key), from.brief(), ready.size_bytes, pull.size_bytes));
      close(pull, *source, out);
    } else {
      source->state = State::open;
      source->right = {ready.token, ready.key, ready.offer};
      source->partial = ready.partial;
      source->there.assign(ready.partial ? pull.chunks.size() : 0, false);
      const bool alike = ready.chunk_bytes == options_.chunk_bytes;
      for (const std::uint32_t number : ready.chunks) {
        if (alike && number < source->there.size()) source->there[number] = true;
      }
    }
  }
  settle(now, id, out);
}

void PullQueue::more_there(Time now, NodeId from, const ChunksAvailable& news,
                           std::vector<PullCommand>& out) {
  const auto at = requests_.find(news.pull);
  if (at == requests_.end()) return;
  const PullId id = at->second;
  Pull& pull = pulls_.at(id);
  Source* source = pull.source_of(from);
  if (source == nullptr || source->request != news.pull || source->state != State::open) return;
  for (const std::uint32_t number : news.chunks) {
    if (number < source->there.size()) source->there[number] = true;
  }
  settle(now, id, out);
}

void PullQueue::fetched(Time now, ChunkId chunk, std::optional<Failure> why,
                        std::vector<PullCommand>& out) {
  const auto at = flights_.find(chunk);
  if (at == flights_.end()) return;
  const Flight flight = std::move(at->second);
  flights_.erase(at);
  bytes_in_flight_ -= flight.size_bytes;
  if (--under_way_.at(flight.node) == 0) under_way_.erase(flight.node);
  Pull& pull = pulls_.at(flight.pull);
  Source& source = *pull.source_of(flight.node);
  --pull.under_way;
  --source.under_way;
  pull.mark(flight.number, why ? Pull::Chunk::missing : Pull::Chunk::there);
  source.ended = now;
  if (!why) {
    source.failures = 0;
    source.bytes += flight.size_bytes;
    source.due.reset();
    pull.stalled_by.reset();
    if (source.partial) mark_partial.hit();
    if (pull.stage == Stage::running) {
      out.push_back(ChunkThere{flight.pull, pull.key, flight.number});
    }
  } else {
    mark_again.hit();
    if (source.state == State::open && (!flight.cut || flight.why)) {
      source_failed(now, pull, source, flight.why.value_or(*why), flight.since, out);
    }
  }
  if (source.state == State::closing && source.under_way == 0) release(pull, source, out);
  if (pull.stage == Stage::ending) {
    if (pull.under_way == 0) done(flight.pull, out);
    return assign(now, out);
  }
  settle(now, flight.pull, out);
}

void PullQueue::completed(Time now, PullId id, std::optional<Failure> why,
                          std::vector<PullCommand>& out) {
  const Pull* pull = pulls_.find(id);
  if (pull == nullptr || pull->stage != Stage::finishing) return;
  end(id, std::move(why), out);
  assign(now, out);
}

void PullQueue::node_dead(Time now, NodeId node, std::vector<PullCommand>& out) {
  std::vector<PullId> touched;
  for (auto& [id, pull] : pulls_) {
    Source* source = pull.source_of(node);
    if (source == nullptr || source->state == State::over) continue;
    pull.failure = failure(ErrorCode::unavailable, fmt::format("node {} died", node.brief()));
    close(pull, *source, out);
    touched.push_back(id);
  }
  for (const PullId id : touched) settle(now, id, out);
}

// ---- deadlines ----------------------------------------------------------------------------------

void PullQueue::tick(Time now, std::vector<PullCommand>& out) {
  std::vector<ChunkId> overdue;
  for (const auto& [id, flight] : flights_) {
    if (!flight.cut && flight.deadline <= now) overdue.push_back(id);
  }
  for (const ChunkId id : overdue) {
    mark_late.hit();
    Flight& flight = flights_.at(id);
    cut(flight, id,
        failure(ErrorCode::timed_out,
                fmt::format("pull of {}: node {} did not send the requested bytes in time",
                            name_of(pulls_.at(flight.pull).key), flight.node.brief())),
        out);
  }
  const std::vector<PullId> active(active_.begin(), active_.end());
  for (const PullId id : active) {
    if (pulls_.find(id) != nullptr) late(now, id, out);
  }
  assign(now, out);
}

void PullQueue::late(Time now, PullId id, std::vector<PullCommand>& out) {
  Pull& pull = pulls_.at(id);
  if (pull.stage != Stage::running) return;
  for (Source& source : pull.sources) {
    if (!source.due || *source.due > now) continue;
    source.due.reset();
    if (source.state == State::busy) {
      source.state = State::known;
    } else if (source.state == State::requested) {
      pull.failure = failure(
          ErrorCode::timed_out,
          fmt::format("pull of {}: node {} did not reply", name_of(pull.key), source.node.brief()));
      close(pull, source, out);
    }
  }
  if (pull.stalled_by && *pull.stalled_by <= now) {
    mark_stalled.hit();
    return end(id,
               pull.failure.value_or(failure(
                   ErrorCode::unavailable,
                   fmt::format("pull of {}: no node has a complete copy", name_of(pull.key)))),
               out);
  }
  settle(now, id, out);
}

std::optional<Time> PullQueue::next_deadline() const {
  std::optional<Time> first;
  for (const auto& [id, flight] : flights_) {
    if (!flight.cut) take_earlier(first, flight.deadline);
  }
  for (const PullId id : active_) {
    const Pull& pull = pulls_.at(id);
    if (pull.stage != Stage::running) continue;
    take_earlier(first, pull.stalled_by);
    for (const Source& source : pull.sources) take_earlier(first, source.due);
  }
  return first;
}

// ---- state of one pull --------------------------------------------------------------------------

void PullQueue::settle(Time now, PullId id, std::vector<PullCommand>& out) {
  Pull& pull = pulls_.at(id);
  if (pull.stage == Stage::running) {
    request_sources(now, pull, id, out);
    if (pull.complete()) {
      for (Source& source : pull.sources) close(pull, source, out);
      if (pull.key.object.empty()) {
        pull.stage = Stage::finishing;
        out.push_back(CompletePull{id});
      } else {
        end(id, std::nullopt, out);
      }
    } else if (!can_go_on(now, pull)) {
      end(id, pull.failure.value_or(failure(ErrorCode::unavailable, "no node has it")), out);
    }
  } else if (!pull.counted() || pull.stage == Stage::placing) {
    const bool hopeless = std::ranges::all_of(
        pull.sources, [](const Source& source) { return source.state == State::over; });
    if (hopeless) {
      end(id, pull.failure.value_or(failure(ErrorCode::unavailable, "no node has it")), out);
    }
  }
  assign(now, out);
}

void PullQueue::request_sources(Time now, Pull& pull, PullId id, std::vector<PullCommand>& out) {
  if (pull.complete()) return;
  auto used = static_cast<std::size_t>(std::ranges::count_if(pull.sources, [](const Source& each) {
    return each.state != State::known && each.state != State::over;
  }));
  for (Source& source : pull.sources) {
    if (used >= options_.max_sources) return;
    if (source.state != State::known) continue;
    ++used;
    source.state = State::requested;
    source.request = ++last_request_;
    source.due = now + options_.answer_timeout;
    requests_.emplace(source.request, id);
    out.push_back(RequestSource{source.request, source.node, pull.key});
  }
}

// Returns false if no source remains. A pull that depends on chunks which other nodes still pull
// may wait at most `stalled_timeout`.
bool PullQueue::can_go_on(Time now, Pull& pull) const {
  bool anybody = pull.under_way > 0, soon = pull.under_way > 0;
  for (Source& source : pull.sources) {
    if (source.state == State::over) continue;
    anybody = true;
    const bool readable = source.state == State::open && pull.pick(source).has_value();
    soon = soon || source.waits() || source.state == State::closing || readable;
  }
  if (soon) {
    pull.stalled_by.reset();
  } else if (anybody && !pull.stalled_by) {
    pull.stalled_by = now + options_.stalled_timeout;
  }
  return anybody;
}

std::optional<std::vector<std::uint32_t>> PullQueue::chunks_of(PullId id) const {
  const Pull* pull = pulls_.find(id);
  if (pull == nullptr || pull->stage != Stage::running) return std::nullopt;
  std::vector<std::uint32_t> there;
  for (std::size_t i = 0; i < pull->chunks.size(); ++i) {
    if (pull->chunks[i] == Pull::Chunk::there) there.push_back(static_cast<std::uint32_t>(i));
  }
  return there;
}

// ---- chunks ------------------------------------------------------------------------------------

void PullQueue::assign(Time now, std::vector<PullCommand>& out) {
  for (const Turn turn : {Turn::first, Turn::argument, Turn::other}) {
    for (bool given = true; given;) {
      given = false;
      // In rotation, after the pull that was served last.
      std::vector<PullId> order(active_.upper_bound(last_served_), active_.end());
      order.insert(order.end(), active_.begin(), active_.upper_bound(last_served_));
      if (turn == Turn::first) {
        std::stable_partition(order.begin(), order.end(),
                              [&](PullId id) { return pulls_.at(id).argument; });
      }
      for (const PullId id : order) {
        const Pull& pull = pulls_.at(id);
        const bool its_turn =
            turn == Turn::first ? pull.under_way == 0 : pull.argument == (turn == Turn::argument);
        if (pull.stage != Stage::running || !its_turn) continue;
        if (!assign_one(now, id, out)) continue;
        last_served_ = id;
        given = turn != Turn::first;
      }
    }
  }
}

bool PullQueue::assign_one(Time now, PullId id, std::vector<PullCommand>& out) {
  Pull& pull = pulls_.at(id);
  std::uint32_t number = 0;
  Source* source = best_source(now, pull, number);
  if (source == nullptr) return false;
  const std::uint64_t length = pull.length_of(number);
  if (bytes_in_flight_ > 0 && bytes_in_flight_ + length > options_.max_bytes) {
    mark_budget.hit();
    return false;
  }
  if (pull.under_way > source->under_way) mark_second_source.hit();
  pull.mark(number, Pull::Chunk::under_way);
  ++pull.under_way;
  ++source->under_way;
  if (!source->began) source->began = source->ended = now;
  const std::size_t before_it = under_way_[source->node]++;
  bytes_in_flight_ += length;
  const std::uint64_t queued = before_it * options_.chunk_bytes + length;
  const auto slow =
      Duration(1ms) * static_cast<std::int64_t>(queued * 1000 / options_.least_bytes_per_second);
  const ChunkId chunk = ++last_chunk_;
  flights_.emplace(chunk, Flight{.pull = id,
                                 .node = source->node,
                                 .number = number,
                                 .size_bytes = length,
                                 .since = now,
                                 .deadline = now + options_.chunk_timeout + slow});
  out.push_back(FetchChunk{chunk, id, source->node, pull.offset_of(number), length, source->right});
  return true;
}

// Prefers sources without a recent failure. Among these, selects the source with the fewest chunks
// in transit, and at equal load a source that is still pulling the object, to relieve complete
// holders.
Source* PullQueue::best_source(Time now, Pull& pull, std::uint32_t& number) const {
  Source* best = nullptr;
  bool healthy = false;
  for (Source& source : pull.sources) {
    if (source.state != State::open || (source.failures > 0 && healthy)) continue;
    const auto candidate = pull.pick(source);
    if (!candidate) continue;
    if (source.failures == 0 && !healthy) {
      healthy = true;
      best = nullptr;
    }
    const bool pauses = source.due && *source.due > now;
    const std::size_t load = under_way_from(source.node);
    if (pauses || load >= options_.chunks_per_source) continue;
    if (best != nullptr) {
      const std::size_t least = under_way_from(best->node);
      const bool better = load < least || (load == least && source.partial && !best->partial);
      if (!better) continue;
    }
    best = &source;
    number = *candidate;
  }
  return best;
}

std::size_t PullQueue::under_way_from(NodeId node) const {
  const auto at = under_way_.find(node);
  return at == under_way_.end() ? 0 : at->second;
}

// ---- failures and ends --------------------------------------------------------------------------

void PullQueue::cut(Flight& flight, ChunkId id, std::optional<Failure> why,
                    std::vector<PullCommand>& out) {
  if (flight.cut) return;
  flight.cut = true;
  flight.why = std::move(why);
  out.push_back(CutChunk{id});
}

// A broken connection fails several chunks at once, which count as one failure.
void PullQueue::source_failed(Time now, Pull& pull, Source& source, Failure why, Time began,
                              std::vector<PullCommand>& out) {
  pull.failure = std::move(why);
  const bool known = source.failures > 0 && began <= source.failed_at;
  if (known) return;
  source.failed_at = now;
  if (++source.failures >= options_.source_failures) return close(pull, source, out);
  source.due = now + options_.retry_backoff * (1 << std::min(source.failures - 1, 8));
}

void PullQueue::close(Pull& pull, Source& source, std::vector<PullCommand>& out) {
  if (source.state == State::closing || source.state == State::over) return;
  const bool requested = source.state == State::requested || source.state == State::open;
  source.state = State::closing;
  source.due.reset();
  if (!requested) {
    source.state = State::over;
  } else if (source.under_way == 0) {
    release(pull, source, out);
  } else {
    for (auto& [id, flight] : flights_) {
      const bool its = flight.node == source.node && &pulls_.at(flight.pull) == &pull;
      if (its) cut(flight, id, std::nullopt, out);
    }
  }
}

// Requires that no read from the source is active, because the source may free the bytes after
// this.
void PullQueue::release(Pull& pull, Source& source, std::vector<PullCommand>& out) {
  source.state = State::over;
  requests_.erase(source.request);
  out.push_back(ReleaseSource{source.request, source.node, pull.key});
}

void PullQueue::end(PullId id, std::optional<Failure> why, std::vector<PullCommand>& out) {
  Pull& pull = pulls_.at(id);
  if (pull.stage == Stage::ending) return;
  waiting_arguments_.erase(id);
  waiting_others_.erase(id);
  const auto key = by_key_.find(pull.key);
  if (key != by_key_.end() && key->second == id) by_key_.erase(key);
  if (!pull.counted()) ++running_;
  pull.stage = Stage::ending;
  pull.outcome = std::move(why);
  for (Source& source : pull.sources) close(pull, source, out);
  if (pull.under_way == 0) {
    done(id, out);
  } else {
    active_.insert(id);
  }
}

void PullQueue::done(PullId id, std::vector<PullCommand>& out) {
  Pull& pull = pulls_.at(id);
  out.push_back(PullDone{id, pull.key, std::move(pull.outcome), pull.wanted, pull.shares()});
  active_.erase(id);
  pulls_.erase(id);
  --running_;
  admit(out);
}

}  // namespace mobula::internal::transfer
