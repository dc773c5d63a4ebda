// A file's bytes in memory: of one that nobody changes, to read, or of a new one, to be written.
// Shared, because transfers on another thread use them. Any thread.
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
  // Makes the file, replacing one that is there, with room for so many bytes.
  static Result<std::shared_ptr<const MappedFile>> create(const std::string& path,
                                                          std::uint64_t size_bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  std::span<std::byte> writable() const { return bytes_; }  // of one that was created

 private:
  explicit MappedFile(std::span<std::byte> bytes) : bytes_(bytes) {}
  static Result<std::shared_ptr<const MappedFile>> map(const Fd& file, std::uint64_t size_bytes,
                                                       int protection);
  const std::span<std::byte> bytes_;
};

}  // namespace mobula::internal::worker
