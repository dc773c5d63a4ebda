#include "transfer/core/pull_queue.h"

#include <fmt/format.h>

#include <algorithm>

namespace mobula::internal::transfer {
namespace {

std::string name_of(const PullKey& key) {
  return key.object.empty() ? fmt::format("program file {}", hex_of(key.file))
                            : fmt::format("object {}", key.object.brief());
}

}  // namespace

Result<PullId> PullQueue::want(Time now, PullKey key, std::uint64_t size_bytes,
                               const std::vector<NodeId>& sources, std::vector<PullCommand>& out) {
  for (auto& [id, pull] : pulls_) {
    if (pull.key != key || pull.cut) continue;
    ++pull.wishes;
    for (const NodeId source : sources) {
      const bool there = source == pull.from || std::ranges::count(pull.sources, source) != 0;
      if (!there) pull.sources.push_back(source);
    }
    return id;
  }
  if (sources.empty()) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("pull of {}: no node is known to have it", name_of(key)));
  }
  if (pulls_.size() - running_ >= options_.max_waiting) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("pull of {}: {} pulls wait already on this node", name_of(key),
                               pulls_.size() - running_));
  }
  const PullId id = next_++;
  pulls_.insert(id, Pull{.key = key, .size_bytes = size_bytes, .sources = sources});
  admit(now, out);
  return id;
}

void PullQueue::unwant(Time now, PullId id, std::vector<PullCommand>& out) {
  Pull* pull = pulls_.find(id);
  if (pull == nullptr || --pull->wishes > 0) return;
  if (pull->stage == Stage::transferring) {
    cut(*pull, id, out);
    return;
  }
  end(now, id, failure(ErrorCode::cancelled, "nobody wants it any more"), out);
}

void PullQueue::answered(Time now, NodeId from, const PullReady& ready,
                         std::vector<PullCommand>& out) {
  Pull* pull = pulls_.find(ready.pull);
  if (pull == nullptr || pull->stage != Stage::asking || pull->from != from) return;
  if (ready.failure) {
    const bool busy = ready.failure->code == ErrorCode::resource_exhausted;
    source_failed(now, ready.pull, *ready.failure, busy, out);
    return;
  }
  if (ready.size_bytes < 0 || static_cast<std::uint64_t>(ready.size_bytes) != pull->size_bytes) {
    source_failed(
        now, ready.pull,
        failure(ErrorCode::corrupt,
                fmt::format("pull of {} from node {}: it has {} bytes there, expected {}",
                            name_of(pull->key), from.brief(), ready.size_bytes, pull->size_bytes)),
        false, out);
    return;
  }
  pull->stage = Stage::transferring;
  const auto seconds =
      static_cast<std::int64_t>(pull->size_bytes / options_.least_bytes_per_second);
  pull->deadline = now + options_.transfer_within + seconds * Duration(1s);
  out.push_back(Transfer{ready.pull, from, pull->key, pull->size_bytes, ready.token, ready.key});
}

void PullQueue::finished(Time now, PullId id, std::optional<Failure> why,
                         std::vector<PullCommand>& out) {
  Pull* pull = pulls_.find(id);
  if (pull == nullptr || pull->stage != Stage::transferring) return;
  if (pull->wishes <= 0) {
    why = failure(ErrorCode::cancelled, "nobody wants it any more");
  } else if (why) {
    pull->cut = false;
    source_failed(now, id, std::move(*why), false, out);
    return;
  }
  end(now, id, std::move(why), out);
}

void PullQueue::node_dead(Time now, NodeId node, std::vector<PullCommand>& out) {
  std::vector<PullId> asked;
  for (auto& [id, pull] : pulls_) {
    std::erase(pull.sources, node);
    std::erase(pull.busy, node);
    if (pull.from == node && pull.stage == Stage::asking) asked.push_back(id);
    if (pull.from == node && pull.stage == Stage::transferring) cut(pull, id, out);
    if (pull.stage == Stage::waiting && pull.sources.empty()) asked.push_back(id);
  }
  for (const PullId id : asked) {
    source_failed(now, id,
                  failure(ErrorCode::unavailable, fmt::format("node {} died", node.brief())), false,
                  out);
  }
}

void PullQueue::tick(Time now, std::vector<PullCommand>& out) {
  std::vector<PullId> due;
  for (const auto& [id, pull] : pulls_) {
    if (pull.deadline && *pull.deadline <= now) due.push_back(id);
  }
  for (const PullId id : due) {
    Pull* pull = pulls_.find(id);
    if (pull == nullptr) continue;
    pull->deadline.reset();
    if (pull->stage == Stage::pausing) {
      pull->sources = std::move(pull->busy);
      pull->busy.clear();
      try_next(now, id, out);
    } else if (pull->stage == Stage::transferring) {
      cut(*pull, id, out);
    } else {
      source_failed(
          now, id,
          failure(ErrorCode::timed_out, fmt::format("pull of {}: node {} did not answer",
                                                    name_of(pull->key), pull->from.brief())),
          false, out);
    }
  }
}

std::optional<Time> PullQueue::next_deadline() const {
  std::optional<Time> first;
  for (const auto& [id, pull] : pulls_) {
    if (pull.deadline && (!first || *pull.deadline < *first)) first = pull.deadline;
  }
  return first;
}

// ---- parts -------------------------------------------------------------------------------------

void PullQueue::admit(Time now, std::vector<PullCommand>& out) {
  std::vector<PullId> begin;
  for (auto& [id, pull] : pulls_) {
    if (running_ >= options_.max_pulls) break;
    if (pull.stage != Stage::waiting) continue;
    // In order: a large one is not overtaken for ever by small ones.
    if (running_ > 0 && bytes_in_flight_ + pull.size_bytes > options_.max_bytes) break;
    ++running_;
    bytes_in_flight_ += pull.size_bytes;
    pull.stage = Stage::asking;
    begin.push_back(id);
  }
  for (const PullId id : begin) try_next(now, id, out);
}

void PullQueue::try_next(Time now, PullId id, std::vector<PullCommand>& out) {
  Pull& pull = pulls_.at(id);
  if (pull.sources.empty()) {
    if (!pull.busy.empty() && pull.rounds++ < options_.busy_rounds) {
      pull.stage = Stage::pausing;
      pull.from = NodeId{};
      pull.deadline = now + options_.busy_pause;
      return;
    }
    end(now, id, pull.failure.value_or(failure(ErrorCode::unavailable, "no node has it")), out);
    return;
  }
  pull.stage = Stage::asking;
  pull.from = pull.sources.front();
  pull.sources.erase(pull.sources.begin());
  pull.deadline = now + options_.answer_within;
  out.push_back(AskSource{id, pull.from, pull.key});
}

void PullQueue::source_failed(Time now, PullId id, Failure why, bool busy,
                              std::vector<PullCommand>& out) {
  Pull& pull = pulls_.at(id);
  if (busy) pull.busy.push_back(pull.from);
  pull.failure = std::move(why);
  if (pull.stage == Stage::waiting) {
    end(now, id, pull.failure, out);
  } else {
    try_next(now, id, out);
  }
}

void PullQueue::cut(Pull& pull, PullId id, std::vector<PullCommand>& out) {
  if (pull.cut) return;
  pull.cut = true;
  out.push_back(CutTransfer{id});
}

void PullQueue::end(Time now, PullId id, std::optional<Failure> why,
                    std::vector<PullCommand>& out) {
  const Pull& pull = pulls_.at(id);
  if (pull.stage != Stage::waiting) {
    --running_;
    bytes_in_flight_ -= pull.size_bytes;
  }
  out.push_back(PullDone{id, pull.key, why ? NodeId{} : pull.from, std::move(why)});
  pulls_.erase(id);
  admit(now, out);
}

}  // namespace mobula::internal::transfer
