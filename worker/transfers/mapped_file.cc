#include "worker/transfers/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

namespace mobula::internal::worker {

Result<std::shared_ptr<const MappedFile>> MappedFile::map(const Fd& file, std::uint64_t size_bytes,
                                                          int protection) {
  std::span<std::byte> bytes;
  if (size_bytes > 0) {
    void* at = ::mmap(nullptr, size_bytes, protection, MAP_SHARED, file.get(), 0);
    if (at == MAP_FAILED) return errno_failure("map a program file", errno);
    // A process forked in this time must not keep a program file busy until its exec.
    ::madvise(at, size_bytes, MADV_DONTFORK);
    bytes = {static_cast<std::byte*>(at), size_bytes};
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(bytes));
}

Result<std::shared_ptr<const MappedFile>> MappedFile::read(const Fd& file) {
  struct stat seen {};
  if (::fstat(file.get(), &seen) != 0) return errno_failure("stat a program file", errno);
  return map(file, static_cast<std::uint64_t>(seen.st_size), PROT_READ);
}

Result<std::shared_ptr<const MappedFile>> MappedFile::create(const std::string& path,
                                                             std::uint64_t size_bytes) {
  const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) return errno_failure("write " + path, errno);
  // Allocates the space now: a write to a mapping on a full disk would raise SIGBUS.
  if (size_bytes > 0) {
    const int refused = ::posix_fallocate(file.get(), 0, static_cast<off_t>(size_bytes));
    if (refused != 0) return errno_failure("make room for " + path, refused);
  }
  return map(file, size_bytes, PROT_READ | PROT_WRITE);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace mobula::internal::worker
