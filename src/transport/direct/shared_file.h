// Memory that one process writes and others read in place: a memfd of fixed size, which nobody but
// the mapping of its maker can write. Values; any thread.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal {

// Which file a descriptor is of, whatever its number.
struct FileKey {
  dev_t device = 0;
  ino_t inode = 0;
  friend auto operator<=>(const FileKey&, const FileKey&) = default;
};
Result<FileKey> file_key(int fd);
// Of a chunk of a device's memory, whose descriptors do not tell it from others.
constexpr FileKey chunk_key(std::uint64_t chunk) { return {0, static_cast<ino_t>(chunk)}; }

class SharedFile {
 public:
  // Zeros, `size_bytes` rounded up to whole pages, mapped for writing, then sealed: it can neither
  // change its size nor be mapped for writing again. resource_exhausted without room.
  static Result<SharedFile> create(std::uint64_t size_bytes, std::string_view name);

  SharedFile() = default;
  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&& other) noexcept;
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  ~SharedFile();

  std::span<std::byte> bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
  std::span<std::byte> bytes_;
};

// Bytes of another process at an address of this one: a file's, or a device's.
class ReadMapping {
 public:
  // Maps all of a file that came from a peer, or of one's own; the descriptor is not needed
  // afterwards. permission_denied unless it is sealed against shrinking, invalid_argument unless it
  // has `size_bytes`. Shared by all that read there; the last one unmaps.
  static Result<std::shared_ptr<const ReadMapping>> map(int fd, std::uint64_t size_bytes);

  ReadMapping(const ReadMapping&) = delete;
  ReadMapping& operator=(const ReadMapping&) = delete;
  virtual ~ReadMapping() = default;

  std::span<const std::byte> bytes() const { return bytes_; }

 protected:
  explicit ReadMapping(std::span<const std::byte> bytes) : bytes_(bytes) {}

 private:
  std::span<const std::byte> bytes_;
};

// The size of a file that may be given to readers; permission_denied unless it is a memfd that
// cannot shrink.
Result<std::uint64_t> sealed_size(int fd);

}  // namespace mobula::internal
