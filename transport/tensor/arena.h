// Memory of a process that other processes of its machine can read in place: blocks in memfds, from
// which tensors and copies for transfers are allocated. Released ranges are reused first, because
// the first touch of a page costs several times a copy.
// Thread: any (one lock). Not: offers. The releaser must know that no process reads the range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "transport/tensor/region.h"
#include "transport/tensor/shm/shared_file.h"

namespace mobula::internal {

struct ArenaOptions {
  std::uint64_t block_bytes = 64ull << 20;
  std::uint64_t max_bytes = 1ull << 40;     // total of all blocks; pages count only after a touch
  std::uint64_t kept_bytes = 512ull << 20;  // total of empty blocks
};

class Arena;

// A range of an arena, released by its destructor. May outlive the arena.
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
  // The range as a region that can be offered.
  SourceRegion region() const { return {.bytes = bytes_, .location = {}, .file = file_}; }

 private:
  friend class Arena;
  struct Blocks;
  std::shared_ptr<Blocks> blocks_;  // shared by the arena and its ranges
  std::uint64_t block_ = 0;
  std::span<std::byte> bytes_;
  MemoryFile file_;
};

class Arena {
 public:
  // `closed` is called for each freed block, on the thread that released its last range: readers of
  // the block must unmap it.
  explicit Arena(ArenaOptions options = {}, std::function<void(FileKey)> closed = nullptr);

  // Allocates `size` bytes (at least 1), aligned to 256. Errors: resource_exhausted above
  // max_bytes.
  Result<ArenaBytes> take(std::uint64_t size);

  // Returns the file and offset of `bytes`, if they are in this arena.
  std::optional<MemoryFile> file_of(std::span<const std::byte> bytes) const;

  std::uint64_t used_bytes() const;
  std::uint64_t block_bytes() const;

 private:
  std::shared_ptr<ArenaBytes::Blocks> blocks_;  // shared with its ranges
};

}  // namespace mobula::internal
