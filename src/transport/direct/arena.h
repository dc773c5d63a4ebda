// Memory of a process that other processes of its machine can read in place: blocks in memfds, from
// which tensors and copies for transfers are taken. What is given back is taken again first, since
// pages that were never touched cost several times a copy. Any thread; a lock guards it. It knows
// nothing of offers: who gives memory back must know that nobody reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "transport/direct/region.h"
#include "transport/direct/shared_file.h"

namespace mobula::internal {

struct ArenaOptions {
  std::uint64_t block_bytes = 64ull << 20;
  std::uint64_t max_bytes = 1ull << 40;      // of all blocks; pages count when they are touched
  std::uint64_t kept_bytes = 512ull << 20;   // of blocks in which nothing lies
};

class Arena;

// Some bytes of an arena; given back with it. Outlives the arena if need be.
class ArenaBytes {
 public:
  ArenaBytes() = default;
  ArenaBytes(ArenaBytes&& other) noexcept;
  ArenaBytes& operator=(ArenaBytes&& other) noexcept;
  ArenaBytes(const ArenaBytes&) = delete;
  ArenaBytes& operator=(const ArenaBytes&) = delete;
  ~ArenaBytes();

  std::span<std::byte> bytes() const { return bytes_; }
  MemoryFile file() const { return file_; }
  // To be offered as it is.
  SourceRegion region() const { return {.bytes = bytes_, .place = {}, .file = file_}; }

 private:
  friend class Arena;
  struct Blocks;
  std::shared_ptr<Blocks> blocks_;  // the arena's, shared with what was taken from it
  std::uint64_t block_ = 0;
  std::span<std::byte> bytes_;
  MemoryFile file_;
};

class Arena {
 public:
  // `closed` is told of each block that is gone, from whichever thread gave its last bytes back:
  // its readers are to let go of it.
  explicit Arena(ArenaOptions options = {}, std::function<void(FileKey)> closed = nullptr);

  // `size` bytes (at least 1) at a multiple of 256. resource_exhausted beyond max_bytes.
  Result<ArenaBytes> take(std::uint64_t size);

  // Where these bytes lie, if it is in this arena.
  std::optional<MemoryFile> file_of(std::span<const std::byte> bytes) const;

  std::uint64_t used_bytes() const;
  std::uint64_t block_bytes() const;

 private:
  std::shared_ptr<ArenaBytes::Blocks> blocks_;
};

}  // namespace mobula::internal
