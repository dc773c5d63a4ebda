// Intern cache: the latest values with their encoded bytes. A repeated value is neither encoded nor
// decoded again and shares one object. Values above 4 KiB are not cached, so no sender can fill the
// memory of a receiver.
// Thread: owner.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "base/containers/copy_on_write.h"
#include "protocol/codec/codec.h"

namespace mobula::internal {

template <class T, std::size_t Most = 16>
class InternCache {
 public:
  static constexpr std::size_t longest_kept = 4096;  // bytes

  struct Entry {
    CopyOnWrite<T> value;
    CopyOnWrite<T> equal;  // latest other object with the same bytes
    Bytes bytes;
  };

  // The entry of this object, until the next call; null if it is not cached.
  const Entry* find(const CopyOnWrite<T>& value) {
    return find_where([&](const Entry& entry) {
      return entry.value.is_same(value) || entry.equal.is_same(value);
    });
  }
  // The entry whose bytes are next in `in`, which consumes them. Null if no entry matches; then
  // `in` is unchanged.
  const Entry* take_next(Reader& in) {
    return find_where([&](const Entry& entry) { return in.take(entry.bytes); });
  }
  // The entry with these bytes.
  const Entry* find(std::span<const std::byte> bytes) {
    return find_where([&](const Entry& entry) {
      return entry.bytes.size() == bytes.size() &&
             std::memcmp(entry.bytes.data(), bytes.data(), bytes.size()) == 0;
    });
  }

  // The encoded bytes of `value`, until the next call. `memory` stores them if they were not
  // cached.
  std::span<const std::byte> bytes_of(const CopyOnWrite<T>& value, Bytes& memory) {
    if (const Entry* known = find(value)) return known->bytes;
    memory = encode(*value);
    keep(value, memory);
    return memory;
  }

  // Replaces the oldest entry, or adds the object to the entry with equal bytes. Ignores values
  // that are too long.
  void keep(const CopyOnWrite<T>& value, std::span<const std::byte> bytes) {
    if (bytes.size() > longest_kept) return;
    if (find(bytes) != nullptr) {
      entries_[last_].equal = value;
      return;
    }
    Entry& entry = entries_[next_];
    entry.value = value;
    entry.equal = value;
    entry.bytes.assign(bytes.begin(), bytes.end());
    last_ = next_;
    next_ = (next_ + 1) % Most;
    used_ = std::max(used_, last_ + 1);
  }

 private:
  // The latest match is compared first.
  template <class Is>
  const Entry* find_where(Is is) {
    if (used_ > 0 && is(entries_[last_])) return &entries_[last_];
    for (std::size_t i = 0; i < used_; ++i) {
      if (i != last_ && is(entries_[i])) return &entries_[last_ = i];
    }
    return nullptr;
  }

  std::array<Entry, Most> entries_;
  std::size_t used_ = 0;
  std::size_t next_ = 0;
  std::size_t last_ = 0;
};

// The cache of the calling thread.
template <class T, std::size_t Most = 16>
InternCache<T, Most>& intern_cache() {
  thread_local InternCache<T, Most> values;
  return values;
}

}  // namespace mobula::internal
