#include "transport/tensor/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/containers/free_ranges.h"
#include "base/mutex.h"

namespace mobula::internal {
namespace {

constexpr std::uint64_t alignment = 256;
constexpr std::uint64_t block_multiple = 2u << 20;

constexpr std::uint64_t rounded(std::uint64_t size, std::uint64_t to) {
  return (size + to - 1) / to * to;
}

}  // namespace

struct ArenaBytes::Blocks {
  struct Block {
    SharedFile file;
    FileKey key;
    FreeRanges free;
  };

  Result<std::uint64_t> add(std::uint64_t least) MOBULA_REQUIRES(mutex);
  void give_back(std::uint64_t number, std::uint64_t offset, std::uint64_t size);

  ArenaOptions options;
  std::function<void(FileKey)> closed;

  Mutex mutex;
  std::map<std::uint64_t, Block> blocks MOBULA_GUARDED_BY(mutex);
  std::uint64_t next MOBULA_GUARDED_BY(mutex) = 1;
  std::uint64_t block_bytes MOBULA_GUARDED_BY(mutex) = 0;
  std::uint64_t empty_bytes MOBULA_GUARDED_BY(mutex) = 0;
  std::uint64_t used_bytes MOBULA_GUARDED_BY(mutex) = 0;
};

Result<std::uint64_t> ArenaBytes::Blocks::add(std::uint64_t least) {
  const std::uint64_t size = std::max(options.block_bytes, rounded(least, block_multiple));
  if (size > options.max_bytes - std::min(options.max_bytes, block_bytes)) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("{} bytes of shared memory: {} of {} are taken", least, used_bytes,
                               options.max_bytes));
  }
  auto file = SharedFile::create(size, "mobula-arena");
  if (!file) return file.error();
  const auto key = file_key(file->fd());
  if (!key) return key.error();
  const std::uint64_t whole = file->bytes().size();
  Block block{std::move(file).value(), *key, FreeRanges(whole)};
  block_bytes += whole;
  empty_bytes += whole;
  blocks.emplace(next, std::move(block));
  return next++;
}

void ArenaBytes::Blocks::give_back(std::uint64_t number, std::uint64_t offset, std::uint64_t size) {
  Block gone;  // closed without the lock
  {
    const MutexLock lock(mutex);
    used_bytes -= size;
    Block& block = blocks.at(number);
    block.free.give_back(offset, size);
    if (!block.free.whole()) return;
    const std::uint64_t whole = block.free.size();
    empty_bytes += whole;
    if (empty_bytes <= options.kept_bytes) return;
    empty_bytes -= whole;
    block_bytes -= whole;
    gone = std::move(block);
    blocks.erase(number);
  }
  if (closed) closed(gone.key);
}

Arena::Arena(ArenaOptions options, std::function<void(FileKey)> closed)
    : blocks_(std::make_shared<ArenaBytes::Blocks>()) {
  blocks_->options = options;
  blocks_->closed = std::move(closed);
}

Result<ArenaBytes> Arena::take(std::uint64_t size) {
  if (size == 0 || size > blocks_->options.max_bytes) {
    return failure(size == 0 ? ErrorCode::invalid_argument : ErrorCode::resource_exhausted,
                   fmt::format("{} bytes of shared memory; at most {} are there", size,
                               blocks_->options.max_bytes));
  }
  const std::uint64_t wanted = rounded(size, alignment);
  const MutexLock lock(blocks_->mutex);
  // Called only under the lock. The analysis does not follow lambdas.
  const auto from = [&](std::uint64_t number, ArenaBytes::Blocks::Block& block)
                        MOBULA_NO_THREAD_SAFETY_ANALYSIS -> std::optional<ArenaBytes> {
    const bool was_whole = block.free.whole();
    const auto begin = block.free.take(wanted);
    if (!begin) return std::nullopt;
    if (was_whole) blocks_->empty_bytes -= block.free.size();
    blocks_->used_bytes += wanted;
    ArenaBytes made;
    made.blocks_ = blocks_;
    made.block_ = number;
    made.bytes_ = block.file.bytes().subspan(*begin, size);
    made.file_ = {block.file.fd(), *begin};
    return made;
  };
  for (auto& [number, block] : blocks_->blocks) {
    if (auto taken = from(number, block)) return std::move(*taken);
  }
  const auto added = blocks_->add(wanted);
  if (!added) return added.error();
  return *from(*added, blocks_->blocks.at(*added));
}

std::optional<MemoryFile> Arena::file_of(std::span<const std::byte> bytes) const {
  const MutexLock lock(blocks_->mutex);
  for (const auto& [number, block] : blocks_->blocks) {
    const auto whole = block.file.bytes();
    const bool inside =
        bytes.data() >= whole.data() && bytes.data() + bytes.size() <= whole.data() + whole.size();
    if (!inside) continue;
    MemoryFile file;
    file.fd = block.file.fd();
    file.offset = static_cast<std::uint64_t>(bytes.data() - whole.data());
    file.block = number;
    return file;
  }
  return std::nullopt;
}

std::uint64_t Arena::used_bytes() const {
  const MutexLock lock(blocks_->mutex);
  return blocks_->used_bytes;
}

std::uint64_t Arena::block_bytes() const {
  const MutexLock lock(blocks_->mutex);
  return blocks_->block_bytes;
}

ArenaBytes::ArenaBytes(ArenaBytes&& other) noexcept
    : blocks_(std::move(other.blocks_)),
      block_(other.block_),
      bytes_(std::exchange(other.bytes_, {})),
      file_(std::exchange(other.file_, {})) {}

ArenaBytes& ArenaBytes::operator=(ArenaBytes&& other) noexcept {
  std::swap(blocks_, other.blocks_);
  std::swap(block_, other.block_);
  std::swap(bytes_, other.bytes_);
  std::swap(file_, other.file_);
  return *this;
}

ArenaBytes::~ArenaBytes() {
  if (blocks_) blocks_->give_back(block_, file_.offset, rounded(bytes_.size(), alignment));
}

}  // namespace mobula::internal
