#include "transport/tensor/shm/shared_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <string>
#include <utility>

namespace mobula::internal {
namespace {

// Available since Linux 5.1; older C libraries lack the name.
constexpr int seal_future_write = 0x0010;

}  // namespace

Result<FileKey> file_key(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return errno_failure("stat the file of a region", errno);
  return FileKey{status.st_dev, status.st_ino};
}

Result<SharedFile> SharedFile::create(std::uint64_t size_bytes, std::string_view name) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (size_bytes == 0 || size_bytes > std::numeric_limits<std::int64_t>::max() - page) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("cannot make a shared file of {} bytes", size_bytes));
  }
  const std::uint64_t size = (size_bytes + page - 1) / page * page;
  const std::string title(name);
  SharedFile made;
  made.fd_ = Fd(::memfd_create(title.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made.fd_) return errno_failure("memfd_create for tensors", errno);
  // By default, every user can open a memfd through /proc/<pid>/fd.
  if (::fchmod(made.fd_.get(), 0600) != 0) return errno_failure("fchmod of a shared file", errno);
  if (::ftruncate(made.fd_.get(), static_cast<off_t>(size)) != 0) {
    return errno_failure(fmt::format("ftruncate of a shared file to {} bytes", size), errno);
  }
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, made.fd_.get(), 0);
  if (at == MAP_FAILED) return errno_failure(fmt::format("mmap of {} bytes", size), errno);
  made.bytes_ = std::span(static_cast<std::byte*>(at), size);
  ::madvise(at, size, MADV_HUGEPAGE);  // rejected by kernels without huge pages
  if (::fcntl(made.fd_.get(), F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | seal_future_write | F_SEAL_SEAL) != 0) {
    return errno_failure("sealing a shared file (needs Linux 5.1)", errno);
  }
  return made;
}

SharedFile::SharedFile(SharedFile&& other) noexcept
    : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}

SharedFile& SharedFile::operator=(SharedFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedFile::~SharedFile() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Result<std::uint64_t> sealed_size(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return errno_failure("reading the seals of a file of tensors", errno);
  if ((seals & F_SEAL_SHRINK) == 0) {
    return failure(ErrorCode::permission_denied,
                   fmt::format("a file of tensors with seals {:#x}: it could shrink under its "
                               "readers",
                               seals));
  }
  struct stat status {};
  if (::fstat(fd, &status) != 0) return errno_failure("fstat of a file of tensors", errno);
  return static_cast<std::uint64_t>(status.st_size);
}

namespace {

class FileMapping final : public ReadMapping {
 public:
  explicit FileMapping(std::span<const std::byte> bytes) : ReadMapping(bytes) {}
  ~FileMapping() override { ::munmap(const_cast<std::byte*>(bytes().data()), bytes().size()); }
};

}  // namespace

Result<std::shared_ptr<const ReadMapping>> ReadMapping::map(int fd, std::uint64_t size_bytes) {
  const auto size = sealed_size(fd);
  if (!size) return size.error();
  if (*size != size_bytes || size_bytes == 0) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("a file of tensors of {} bytes, where {} were announced", *size, size_bytes));
  }
  void* const at = ::mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    return errno_failure(fmt::format("mmap of {} bytes of a peer", size_bytes), errno);
  }
  return std::shared_ptr<const ReadMapping>(
      std::make_shared<FileMapping>(std::span(static_cast<const std::byte*>(at), size_bytes)));
}

}  // namespace mobula::internal
