// Memory that two processes of one machine write: a memfd of fixed size, sealed against shrinking and
// growing, so that no peer can make a mapping of it fault. What stands in it is a peer's word: read
// once, then checked. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal {

class SharedMemory {
 public:
  // A new file of `size_bytes` zeros (whole pages); `name` is what /proc/*/maps shows.
  // resource_exhausted without descriptors or memory.
  static Result<Fd> create_file(std::size_t size_bytes, std::string_view name);
  // Maps a file that came from a peer. The descriptor is not needed afterwards. invalid_argument if
  // it is not of this size, permission_denied if its size could change.
  static Result<SharedMemory> map(int fd, std::size_t size_bytes);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  std::byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }

 private:
  explicit SharedMemory(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

}  // namespace mobula::internal
