#include "tensor/exchange/tensor_progress.h"

#include "base/mutex.h"

namespace mobula::internal::exchange {

void TensorProgress::pull(Time now, std::uint64_t request, const RefRecords& tensors) {
  const MutexLock lock(mutex_);
  for (const RefRecord& each : tensors) {
    Row& row = rows_[{request, each.object}];
    row.object = each.object;
    row.holder = each.owner;
    row.size_bytes = static_cast<std::uint64_t>(each.tensor->size_bytes);
    row.wanted = now;
  }
}

void TensorProgress::moves(Time now, std::uint64_t request, ObjectId object, DirectPath path) {
  const MutexLock lock(mutex_);
  const auto at = rows_.find({request, object});
  if (at == rows_.end()) return;
  at->second.path = path;
  if (!at->second.began) at->second.began = now;
}

void TensorProgress::there(std::uint64_t request, ObjectId object, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (const auto at = rows_.find({request, object}); at != rows_.end())
    at->second.there_bytes = bytes;
}

void TensorProgress::more(std::uint64_t request, ObjectId object, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (const auto at = rows_.find({request, object}); at != rows_.end())
    at->second.there_bytes += bytes;
}

void TensorProgress::over(std::uint64_t request, ObjectId object) {
  const MutexLock lock(mutex_);
  rows_.erase({request, object});
}

void TensorProgress::over(std::uint64_t request) {
  const MutexLock lock(mutex_);
  std::erase_if(rows_, [&](const auto& each) { return each.first.first == request; });
}

std::vector<TensorProgress::Row> TensorProgress::rows() const {
  std::vector<Row> rows;
  const MutexLock lock(mutex_);
  for (const auto& [key, row] : rows_) rows.push_back(row);
  return rows;
}

}  // namespace mobula::internal::exchange
