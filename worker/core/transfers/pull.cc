#include "worker/core/transfers/pull.h"

#include <algorithm>

#include "base/check.h"

namespace mobula::internal::transfer {
namespace {

constexpr std::size_t max_candidates = 256;

}  // namespace

Pull::Pull(ObjectRequest request, std::uint64_t bytes)
    : key(request.key),
      size_bytes(request.size_bytes),
      chunk_bytes(bytes),
      argument(request.argument) {
  // An empty object has one chunk, so that it is read from a source, too.
  const std::uint64_t count = std::max<std::uint64_t>(1, (size_bytes + bytes - 1) / bytes);
  chunks.assign(static_cast<std::size_t>(count), Chunk::missing);
  first_ = static_cast<std::size_t>(request.spread % count);
  for (const NodeId node : request.sources) add_source(node);
}

std::uint64_t Pull::length_of(std::uint32_t number) const {
  return std::min(chunk_bytes, size_bytes - offset_of(number));
}

std::optional<std::uint32_t> Pull::pick(const Source& source) {
  while (position_ < chunks.size() && chunks[at(position_)] != Chunk::missing) ++position_;
  std::vector<const Source*> others;
  for (const Source& each : sources) {
    const bool shares = each.state == Source::State::open && each.partial && &each != &source;
    if (shares) others.push_back(&each);
  }
  std::optional<std::uint32_t> best;
  std::size_t best_copies = 0;
  std::size_t candidates = 0;
  for (std::size_t i = position_; i < chunks.size() && candidates < max_candidates; ++i) {
    const std::uint32_t number = at(i);
    if (chunks[number] != Chunk::missing || !has(source, number)) continue;
    ++candidates;
    const auto copies = static_cast<std::size_t>(
        std::ranges::count_if(others, [&](const Source* other) { return has(*other, number); }));
    if (best && copies >= best_copies) continue;
    best = number;
    best_copies = copies;
    if (copies == 0) break;
  }
  return best;
}

void Pull::mark(std::uint32_t number, Chunk state) {
  Chunk& chunk = chunks.at(number);
  MOBULA_CHECK(chunk != Chunk::there, "a chunk that is there was fetched again");
  chunk = state;
  if (state == Chunk::there) ++chunks_there;
  if (state != Chunk::missing) return;
  const std::size_t position = (number + chunks.size() - first_) % chunks.size();
  position_ = std::min(position_, position);
}

void Pull::add_source(NodeId node) {
  if (source_of(node) == nullptr) sources.push_back({.node = node, .failed_at = Time()});
}

Source* Pull::source_of(NodeId node) {
  const auto at = std::ranges::find(sources, node, &Source::node);
  return at == sources.end() ? nullptr : &*at;
}

std::vector<PullShare> Pull::shares() const {
  std::vector<PullShare> shares;
  for (const Source& each : sources) {
    if (!each.began) continue;
    shares.push_back({each.node, each.bytes, *each.began, each.ended, !each.right.secret.empty()});
  }
  return shares;
}

PullProgress Pull::progress() const {
  PullProgress progress{.key = key, .size_bytes = size_bytes, .wanted = wanted, .failure = failure};
  progress.there_bytes = chunks_there * chunk_bytes;
  const auto last = static_cast<std::uint32_t>(chunks.size() - 1);
  if (chunks[last] == Chunk::there) progress.there_bytes -= chunk_bytes - length_of(last);
  std::vector<const Source*> open;
  for (const Source& each : sources) {
    if (each.began && (!progress.began || *each.began < *progress.began))
      progress.began = each.began;
    progress.sealed = progress.sealed || !each.right.secret.empty();
    if (each.state == Source::State::open) open.push_back(&each);
  }
  std::ranges::stable_sort(open, std::ranges::greater(), &Source::bytes);
  for (const Source* each : open) progress.sources.push_back(each->node);
  switch (stage) {
    case Stage::waiting: progress.wait = PullProgress::Wait::turn; break;
    case Stage::placing: progress.wait = PullProgress::Wait::placing; break;
    case Stage::parked: progress.wait = PullProgress::Wait::space; break;
    case Stage::running:
      progress.wait = open.empty() ? PullProgress::Wait::sources : PullProgress::Wait::none;
      break;
    case Stage::finishing:
    case Stage::ending: break;
  }
  return progress;
}

}  // namespace mobula::internal::transfer
