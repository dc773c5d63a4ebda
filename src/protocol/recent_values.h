// Values that come again and again, each with its bytes: whoever keeps some of them neither writes nor reads
// such a value anew, and has the same object each time. Long ones are not kept: nobody who sends some fills
// the memory of who reads them. For one thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "base/copy_on_write.h"
#include "protocol/codec.h"

namespace mobula::internal {

template <class T>
class RecentValues {
 public:
  static constexpr std::size_t longest_kept = 4096;  // bytes

  // Until the next call. `memory` is for those that are not kept.
  std::span<const std::byte> bytes_of(const CopyOnWrite<T>& value, Bytes& memory) {
    for (std::size_t i = 0; i < used_; ++i) {
      if (entries_[i].value.is_same(value)) return entries_[i].bytes;
    }
    memory = encode(*value);
    if (memory.size() > longest_kept) return memory;
    return keep(value, std::move(memory)).bytes;
  }

  Result<CopyOnWrite<T>> value_of(std::span<const std::byte> bytes) {
    for (std::size_t i = 0; i < used_; ++i) {
      if (std::ranges::equal(entries_[i].bytes, bytes)) return entries_[i].value;
    }
    auto value = decode<T>(bytes);
    if (!value) return value.error();
    if (bytes.size() > longest_kept) return CopyOnWrite<T>(std::move(*value));
    return keep(std::move(*value), Bytes(bytes.begin(), bytes.end())).value;
  }

 private:
  struct Entry {
    CopyOnWrite<T> value;
    Bytes bytes;
  };

  // In the place of the oldest.
  const Entry& keep(CopyOnWrite<T> value, Bytes bytes) {
    Entry& entry = entries_[next_];
    entry = {std::move(value), std::move(bytes)};
    next_ = (next_ + 1) % entries_.size();
    used_ = std::max(used_, next_ == 0 ? entries_.size() : next_);
    return entry;
  }

  std::array<Entry, 16> entries_;
  std::size_t used_ = 0;
  std::size_t next_ = 0;
};

// Those of the calling thread.
template <class T>
RecentValues<T>& recent_values() {
  thread_local RecentValues<T> values;
  return values;
}

// `bytes` are the whole of one, and have been read.
template <class T>
void read_recent(Reader& in, std::span<const std::byte> bytes, CopyOnWrite<T>& value) {
  if (in.failed() || !in.claim(1, sizeof(T) + bytes.size())) return;
  auto known = recent_values<T>().value_of(bytes);
  if (!known) return in.fail(known.error().text);
  value = std::move(*known);
}

}  // namespace mobula::internal
