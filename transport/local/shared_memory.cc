#include "transport/local/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace mobula::internal {
namespace {

constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;

}  // namespace

Result<Fd> SharedMemory::create_file(std::size_t size_bytes, std::string_view name) {
  const std::string title(name);
  Fd fd(::memfd_create(title.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return errno_failure("memfd_create for shared memory", errno);
  if (::fchmod(fd.get(), 0600) != 0) return errno_failure("fchmod of shared memory", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0) {
    return errno_failure(fmt::format("ftruncate of shared memory to {} bytes", size_bytes), errno);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, size_seals | F_SEAL_SEAL) != 0) {
    return errno_failure("sealing shared memory", errno);
  }
  return fd;
}

Result<SharedMemory> SharedMemory::map(int fd, std::size_t size_bytes) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return errno_failure("reading the seals of shared memory", errno);
  if ((seals & size_seals) != size_seals) {
    return failure(ErrorCode::permission_denied,
                   fmt::format("shared memory with seals {:#x}, where {:#x} are needed: its size "
                               "could change under its readers",
                               seals, size_seals));
  }
  struct stat status {};
  if (::fstat(fd, &status) != 0) return errno_failure("fstat of shared memory", errno);
  if (static_cast<std::size_t>(status.st_size) != size_bytes) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("shared memory of {} bytes, where {} were expected", status.st_size,
                               size_bytes));
  }
  void* const at = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    return errno_failure(fmt::format("mmap of {} bytes of shared memory", size_bytes), errno);
  }
  return SharedMemory(std::span(static_cast<std::byte*>(at), size_bytes));
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace mobula::internal
