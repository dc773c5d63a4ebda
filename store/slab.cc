#include "store/slab.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace mobula::internal {
namespace {

// Available since Linux 5.1; older C libraries lack the name.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

constexpr int slab_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

std::uint64_t page_bytes() { return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)); }

// Checks that the file has `size_bytes`, so that an access to a mapping of that size never faults.
Result<void> check_length(int fd, std::uint64_t size_bytes) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return errno_failure("fstat of a slab", errno);
  if (size_bytes == 0 || static_cast<std::uint64_t>(status.st_size) < size_bytes) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("slab of {} bytes: its file has {}", size_bytes, status.st_size));
  }
  return {};
}

Result<void*> map_file(int fd, std::uint64_t size_bytes, int protection, Paging paging) {
  if (auto checked = check_length(fd, size_bytes); !checked) return checked.error();
  const int flags = MAP_SHARED | (paging == Paging::at_once ? MAP_POPULATE : 0);
  void* at = ::mmap(nullptr, size_bytes, protection, flags, fd, 0);
  if (at == MAP_FAILED) {
    return errno_failure(fmt::format("mmap of a slab of {} bytes", size_bytes), errno);
  }
  return at;
}

}  // namespace

std::uint64_t slab_file_bytes(std::uint64_t size_bytes) {
  const std::uint64_t page = page_bytes();
  return (size_bytes + page - 1) / page * page;
}

Result<Fd> create_slab_file(std::uint64_t size_bytes, std::string_view name) {
  if (size_bytes == 0 || size_bytes > std::numeric_limits<std::int64_t>::max() - page_bytes()) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("cannot create a slab of {} bytes", size_bytes));
  }
  const std::string title(name);
  Fd fd(::memfd_create(title.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return errno_failure("memfd_create for a slab", errno);
  // By default, every user can open a memfd through /proc/<pid>/fd.
  if (::fchmod(fd.get(), 0600) != 0) return errno_failure("fchmod of a slab", errno);
  const std::uint64_t bytes = slab_file_bytes(size_bytes);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return errno_failure(fmt::format("ftruncate of a slab to {} bytes", bytes), errno);
  }
  return fd;
}

Result<void> seal_slab_file(int fd) {
  if (::fcntl(fd, F_ADD_SEALS, slab_seals | F_SEAL_SEAL) != 0) {
    return errno_failure("sealing a slab (needs Linux 5.1)", errno);
  }
  return {};
}

Result<void> check_slab_file(int fd, std::uint64_t size_bytes) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return errno_failure("reading the seals of a slab", errno);
  if ((seals & slab_seals) != slab_seals) {
    return failure(ErrorCode::permission_denied,
                   fmt::format("slab with seals {:#x}, where {:#x} are needed: it could change "
                               "under its readers",
                               seals, slab_seals));
  }
  return check_length(fd, size_bytes);
}

Result<WritableSlab> WritableSlab::map(int fd, std::uint64_t size_bytes, Paging paging) {
  auto at = map_file(fd, size_bytes, PROT_READ | PROT_WRITE, paging);
  if (!at) return at.error();
  ::madvise(*at, size_bytes, MADV_HUGEPAGE);  // rejected by kernels without huge pages
  return WritableSlab({static_cast<std::byte*>(*at), size_bytes});
}

SlabPages::~SlabPages() { ::munmap(bytes_.data(), bytes_.size()); }

Result<std::span<std::byte>> WritableSlab::bytes(std::uint64_t offset,
                                                 std::uint64_t size_bytes) const {
  const std::span<std::byte> all = pages_->bytes();
  if (offset > all.size() || size_bytes > all.size() - offset) {
    return failure(ErrorCode::invalid_argument, fmt::format("bytes {}+{} are outside a slab of {}",
                                                            offset, size_bytes, all.size()));
  }
  return all.subspan(offset, size_bytes);
}

Result<std::shared_ptr<const SlabMapping>> SlabMapping::map(int fd, std::uint64_t size_bytes,
                                                            Paging paging) {
  if (auto checked = check_slab_file(fd, size_bytes); !checked) return checked.error();
  auto at = map_file(fd, size_bytes, PROT_READ, paging);
  if (!at) return at.error();
  return std::shared_ptr<const SlabMapping>(
      new SlabMapping({static_cast<const std::byte*>(*at), size_bytes}));
}

SlabMapping::~SlabMapping() { ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

}  // namespace mobula::internal
