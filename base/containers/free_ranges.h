// Allocates ranges of a byte range first-fit, and merges freed ranges with their neighbors.
// Thread: owner.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace mobula::internal {

class FreeRanges {
 public:
  FreeRanges() = default;
  explicit FreeRanges(std::uint64_t size) : size_(size) {
    if (size > 0) free_.emplace(0, size);
  }

  std::uint64_t size() const { return size_; }
  bool whole() const { return size_ == 0 || (free_.size() == 1 && free_.begin()->second == size_); }

  // Allocates `size` bytes (at least 1) and returns their offset; empty if no free range is large
  // enough.
  std::optional<std::uint64_t> take(std::uint64_t size) {
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      if (at->second < size) continue;
      const std::uint64_t begin = at->first, rest = at->second - size;
      free_.erase(at);
      if (rest > 0) free_.emplace(begin + size, rest);
      return begin;
    }
    return std::nullopt;
  }

  // Frees a range that take() returned, completely.
  void give_back(std::uint64_t begin, std::uint64_t size) {
    auto at = free_.emplace(begin, size).first;
    if (const auto after = std::next(at); after != free_.end() && begin + size == after->first) {
      at->second += after->second;
      free_.erase(after);
    }
    if (at == free_.begin()) return;
    if (const auto before = std::prev(at); before->first + before->second == at->first) {
      before->second += at->second;
      free_.erase(at);
    }
  }

 private:
  std::uint64_t size_ = 0;
  std::map<std::uint64_t, std::uint64_t> free_;  // offset to length; adjacent ranges are merged
};

}  // namespace mobula::internal
