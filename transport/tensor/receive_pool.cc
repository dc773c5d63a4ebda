#include "transport/tensor/receive_pool.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <map>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace mobula::internal {
namespace {

constexpr std::uint64_t least_buffer = 64u << 10;

// Four sizes between two powers of two, so that at most a fifth is unused.
std::uint64_t class_of(std::uint64_t size) {
  const std::uint64_t step =
      std::max<std::uint64_t>(std::bit_floor(std::max(size, least_buffer)) / 4, least_buffer / 4);
  return (std::max(size, least_buffer) + step - 1) / step * step;
}

}  // namespace

struct ReceiveBuffer::Kept {
  ReceivePoolOptions options;
  Mutex mutex;
  // Unused buffers by size. All of them are warm.
  std::map<std::uint64_t, std::vector<std::span<std::byte>>> unused MOBULA_GUARDED_BY(mutex);
  std::uint64_t kept_bytes MOBULA_GUARDED_BY(mutex) = 0;
  std::uint64_t all_bytes MOBULA_GUARDED_BY(mutex) = 0;

  ~Kept() {
    for (const auto& [size, buffers] : unused) {
      for (const auto& each : buffers) ::munmap(each.data(), each.size());
    }
  }

  Result<std::span<std::byte>> map(std::uint64_t size);
  void give_back(std::span<std::byte> buffer, bool warm);
};

Result<std::span<std::byte>> ReceiveBuffer::Kept::map(std::uint64_t size) {
  {
    const MutexLock lock(mutex);
    if (size > options.max_bytes - std::min(options.max_bytes, all_bytes)) {
      return failure(ErrorCode::resource_exhausted,
                     fmt::format("{} bytes for pulled data: {} of {} are taken", size, all_bytes,
                                 options.max_bytes));
    }
    all_bytes += size;
  }
  void* const at =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at != MAP_FAILED) {
    ::madvise(at, size, MADV_HUGEPAGE);  // rejected by kernels without huge pages
    return std::span(static_cast<std::byte*>(at), size);
  }
  const int why = errno;
  const MutexLock lock(mutex);
  all_bytes -= size;
  return errno_failure(fmt::format("mmap of {} bytes for pulled data", size), why);
}

void ReceiveBuffer::Kept::give_back(std::span<std::byte> buffer, bool warm) {
  {
    const MutexLock lock(mutex);
    if (warm && kept_bytes + buffer.size() <= options.kept_bytes) {
      kept_bytes += buffer.size();
      unused[buffer.size()].push_back(buffer);
      return;
    }
    all_bytes -= buffer.size();
  }
  ::munmap(buffer.data(), buffer.size());
}

ReceivePool::ReceivePool(ReceivePoolOptions options)
    : kept_(std::make_shared<ReceiveBuffer::Kept>()) {
  kept_->options = options;
}

Result<ReceiveBuffer> ReceivePool::take(std::uint64_t size) {
  if (size == 0 || size > kept_->options.max_bytes) {
    return failure(
        size == 0 ? ErrorCode::invalid_argument : ErrorCode::resource_exhausted,
        fmt::format("{} bytes for pulled data; at most {}", size, kept_->options.max_bytes));
  }
  const std::uint64_t whole = class_of(size);
  ReceiveBuffer made;
  {
    const MutexLock lock(kept_->mutex);
    const auto at = kept_->unused.find(whole);
    if (at != kept_->unused.end() && !at->second.empty()) {
      made.whole_ = at->second.back();
      made.warm_ = true;
      at->second.pop_back();
      kept_->kept_bytes -= whole;
    }
  }
  if (!made.warm_) {
    const auto mapped = kept_->map(whole);
    if (!mapped) return mapped.error();
    made.whole_ = *mapped;
  }
  made.bytes_ = made.whole_.first(size);
  made.kept_ = kept_;
  return made;
}

void ReceivePool::prepare(std::uint64_t size, CopyThreads& copies) {
  if (size == 0 || class_of(size) + kept_bytes() > kept_->options.kept_bytes) return;
  const auto mapped = kept_->map(class_of(size));
  if (!mapped) return;
  // The copy threads write one byte of each page; the value is zero.
  constexpr std::size_t page = 4096;
  Copy touches;
  for (std::size_t at = 0; at < mapped->size(); at += page) {
    static constexpr std::byte zero{};
    touches.pieces.push_back({mapped->data() + at, &zero, 1});
  }
  touches.ended = [kept = kept_, buffer = *mapped](const CopyEnd& end) {
    kept->give_back(buffer, end.result.ok());
  };
  const auto buffer = *mapped;
  if (!copies.start(std::move(touches))) kept_->give_back(buffer, false);
}

std::uint64_t ReceivePool::kept_bytes() const {
  const MutexLock lock(kept_->mutex);
  return kept_->kept_bytes;
}

std::uint64_t ReceivePool::all_bytes() const {
  const MutexLock lock(kept_->mutex);
  return kept_->all_bytes;
}

ReceiveBuffer::ReceiveBuffer(ReceiveBuffer&& other) noexcept
    : kept_(std::move(other.kept_)),
      whole_(std::exchange(other.whole_, {})),
      bytes_(std::exchange(other.bytes_, {})),
      warm_(other.warm_) {}

ReceiveBuffer& ReceiveBuffer::operator=(ReceiveBuffer&& other) noexcept {
  std::swap(kept_, other.kept_);
  std::swap(whole_, other.whole_);
  std::swap(bytes_, other.bytes_);
  std::swap(warm_, other.warm_);
  return *this;
}

// The user has written all bytes, so the pages are populated.
ReceiveBuffer::~ReceiveBuffer() {
  if (kept_) kept_->give_back(whole_, true);
}

}  // namespace mobula::internal
