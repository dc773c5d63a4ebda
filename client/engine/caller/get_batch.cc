#include "client/engine/caller/get_batch.h"

#include <algorithm>

namespace mobula::internal::client {
namespace {

// Every n-th check also inspects objects after the first unfinished one.
constexpr std::uint32_t checks_per_fetch_ahead = 16;

bool is_inline(const ObjectRow& row) { return row.ready && row.is_inline(); }

// Only a hold keeps stored bytes readable. An unknown object is settled: it has no value.
bool is_settled(const ObjectRow* row, bool held) {
  return row == nullptr || is_inline(*row) || (held && ObjectRefs::is_settled(*row));
}

std::int64_t stored_bytes(const ObjectRow* row) {
  return row == nullptr || !row->ready || row->is_inline() ? 0 : row->value->size_bytes;
}

}  // namespace

GetBatch::GetBatch(ProcessEngine& engine, std::span<const detail::RawId> objects, bool whole)
    : engine_(engine),
      objects_(objects),
      whole_(whole || objects.size() == 1),
      held_(objects.size(), 0) {
  if (!whole_) return;
  for (std::size_t i = 0; i < objects_.size(); ++i) hold(i);
}

void GetBatch::hold(std::size_t index) {
  if (held_[index] != 0) return;
  held_[index] = 1;
  ahead_ = std::max(ahead_, index + 1);
  engine_.want(object(index));
}

void GetBatch::drop(std::size_t index) {
  if (held_[index] == 0) return;
  held_[index] = 0;
  engine_.unwant(object(index));
}

bool GetBatch::complete() {
  const std::size_t before = size_;
  while (!closed_ && size_ < objects_.size()) {
    const ObjectRow* next = row(size_);
    if (!is_settled(next, held_[size_] != 0)) break;
    bytes_ += whole_ ? 0 : stored_bytes(next);
    ++size_;
    closed_ = bytes_ >= max_held_bytes;
  }
  if (closed_ || size_ == objects_.size()) return true;
  if (whole_) return false;
  const bool fetches_ahead = size_ != before || checks_++ % checks_per_fetch_ahead == 0;
  const ObjectRow* next = row(size_);
  const bool fetchable = next != nullptr && (next->ready || !next->owned);
  if (fetches_ahead || (fetchable && held_[size_] == 0)) fetch_ahead();
  return false;
}

// An unfinished result of this process needs no fetch yet. The sizes of other processes' objects
// are not known before they are fetched.
void GetBatch::fetch_ahead() {
  std::int64_t bytes = bytes_;
  const std::size_t end = std::min(objects_.size(), size_ + max_ahead);
  for (std::size_t i = size_; i < end; ++i) {
    const ObjectRow* next = row(i);
    if (next == nullptr || is_inline(*next) || (next->owned && !next->ready)) continue;
    const std::int64_t size = stored_bytes(next);
    if (bytes > 0 && bytes + size > max_held_bytes && i != size_) return drop_ahead(i);
    bytes += size;
    hold(i);
  }
}

void GetBatch::drop_ahead(std::size_t from) {
  for (std::size_t i = from; i < ahead_; ++i) drop(i);
  ahead_ = std::min(ahead_, std::max(from, size_));
}

bool GetBatch::cut_short() {
  if (whole_ || closed_) return closed_;
  const ObjectRow* next = row(size_);
  const bool waits_for_memory = next != nullptr && next->ready && next->fetching;
  if (!waits_for_memory) return false;
  drop_ahead(size_ + 1);
  closed_ = size_ > 0;
  return closed_;
}

bool GetBatch::all_settled() const {
  for (std::size_t i = 0; i < size_; ++i) {
    if (!engine_.core().settled(object(i))) return false;
  }
  return true;
}

void GetBatch::release() {
  for (std::size_t i = 0; i < ahead_; ++i) drop(i);
  ahead_ = 0;
}

}  // namespace mobula::internal::client
