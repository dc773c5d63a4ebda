// Memory that two processes of one machine write: a memfd, sealed against changes of its size, so
// that no peer can make an access fault. A reader must read each value once and then check it,
// because the peer may change it at any time.
// Thread: any.
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
  // Creates a file of `size_bytes` zeros (whole pages). `name` is shown in /proc/*/maps. Errors:
  // resource_exhausted without descriptors or memory.
  static Result<Fd> create_file(std::size_t size_bytes, std::string_view name);
  // Maps a file received from a peer. The descriptor is not needed afterwards. Errors:
  // invalid_argument if the size differs, permission_denied if the size could change.
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
