// Bytes of a file, mapped into memory: of an unchanging file for reading, or of a new file for
// writing. Shared, because transfers on other threads use the mapping.
// Thread: any. Units: bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal::worker {

class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> read(const Fd& file);
  // Creates the file with `size_bytes` of allocated space. Replaces an existing file.
  static Result<std::shared_ptr<const MappedFile>> create(const std::string& path,
                                                          std::uint64_t size_bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  std::span<std::byte> writable() const { return bytes_; }  // for a created file only

 private:
  explicit MappedFile(std::span<std::byte> bytes) : bytes_(bytes) {}
  static Result<std::shared_ptr<const MappedFile>> map(const Fd& file, std::uint64_t size_bytes,
                                                       int protection);
  const std::span<std::byte> bytes_;
};

}  // namespace mobula::internal::worker
