// Memory that one process writes and others read in place: a memfd of fixed size. Only the mapping
// of its creator is writable.
// Thread: any (values).
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

// Identity of the file of a descriptor.
struct FileKey {
  dev_t device = 0;
  ino_t inode = 0;
  friend auto operator<=>(const FileKey&, const FileKey&) = default;
};
Result<FileKey> file_key(int fd);
// Identity of a chunk of device memory, which its descriptors do not reveal.
constexpr FileKey chunk_key(std::uint64_t chunk) { return {0, static_cast<ino_t>(chunk)}; }

class SharedFile {
 public:
  // Creates a file of zeros, `size_bytes` rounded up to whole pages. It is mapped for writing and
  // then sealed: its size is fixed, and it cannot be mapped for writing again. Errors:
  // resource_exhausted without memory.
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

// Bytes of another process in the address space of this process, in a file or on a device.
class ReadMapping {
 public:
  // Maps a whole file, received from a peer or from this process. The descriptor is not needed
  // afterwards. Shared by all readers; the last one unmaps it. Errors: permission_denied unless the
  // file is sealed against shrinking, invalid_argument unless it has `size_bytes`.
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

// Returns the size of a file that may be given to readers. Errors: permission_denied unless it is a
// memfd that cannot shrink.
Result<std::uint64_t> sealed_size(int fd);

}  // namespace mobula::internal
