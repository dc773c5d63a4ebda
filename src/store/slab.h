// The memory behind slabs: a memfd that one process writes and others of its job read in place.
//
// The order is fixed, because seals forbid later what they protect from: the agent creates the file
// (`create_slab_file`), the writer maps it (`WritableSlab`) and says so, the agent seals it
// (`seal_slab_file`), and only then may a reader get the descriptor (`SlabMapping::map`). From then
// on nobody can resize it or write through the descriptor, not even by opening it again under
// /proc; the writer's mapping goes on. Pages are taken from the machine as they are touched; what
// keeps them within bounds is the accounting of SlabSpace, not this file.
//
// Functions and values; any thread. It decides nothing about objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal {

// Whether to take all pages of a mapping now (MAP_POPULATE), which is cheaper than one fault each
// where most of them will be used, or at their first use.
enum class Paging : unsigned char { on_use, at_once };

// Whole pages of this machine that hold `size_bytes`.
std::uint64_t slab_file_bytes(std::uint64_t size_bytes);

// A memfd of `slab_file_bytes(size_bytes)`, closed on exec, mode 0600, with no seal yet. `name` is
// what /proc/*/maps shows. resource_exhausted without descriptors or memory.
Result<Fd> create_slab_file(std::uint64_t size_bytes, std::string_view name);

// Forbids to resize the file, to write to it except through mappings that exist, and further seals.
Result<void> seal_slab_file(int fd);

// Checks a descriptor that came from a peer, whose word counts for nothing: it is a memfd with all
// seals of `seal_slab_file`, and at least `size_bytes` long. permission_denied for missing seals.
Result<void> check_slab_file(int fd, std::uint64_t size_bytes);

// A mapping that goes with the last who uses it.
class SlabPages {
 public:
  explicit SlabPages(std::span<std::byte> bytes) : bytes_(bytes) {}
  SlabPages(const SlabPages&) = delete;
  SlabPages& operator=(const SlabPages&) = delete;
  ~SlabPages();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

// The writer's view of a slab. Move-only; unmaps in the destructor, unless its pages are just being
// taken (fresh_pages.h).
class WritableSlab {
 public:
  // Maps `size_bytes` of a file that is not sealed yet; the descriptor is not needed afterwards. Asks
  // for huge pages, which only some machines give to shared memory.
  static Result<WritableSlab> map(int fd, std::uint64_t size_bytes, Paging paging);

  WritableSlab(WritableSlab&&) = default;
  WritableSlab& operator=(WritableSlab&&) = default;
  WritableSlab(const WritableSlab&) = delete;
  WritableSlab& operator=(const WritableSlab&) = delete;

  // The bytes of one extent; invalid_argument if they do not lie inside the slab.
  Result<std::span<std::byte>> bytes(std::uint64_t offset, std::uint64_t size_bytes) const;
  std::uint64_t size_bytes() const { return pages_->bytes().size(); }
  // Shared with the thread that takes pages ahead of the writer.
  const std::shared_ptr<const SlabPages>& pages() const { return pages_; }

 private:
  explicit WritableSlab(std::span<std::byte> bytes) : pages_(std::make_shared<const SlabPages>(bytes)) {}

  std::shared_ptr<const SlabPages> pages_;
};

// A reader's mapping of a sealed slab, shared by the views of all objects in it.
class SlabMapping {
 public:
  // Checks the file (`check_slab_file`) and maps it read-only; the descriptor is not needed
  // afterwards. Shared, because views outlive calls and the last one to go unmaps.
  static Result<std::shared_ptr<const SlabMapping>> map(int fd, std::uint64_t size_bytes,
                                                        Paging paging);

  SlabMapping(const SlabMapping&) = delete;
  SlabMapping& operator=(const SlabMapping&) = delete;
  ~SlabMapping();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit SlabMapping(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace mobula::internal
