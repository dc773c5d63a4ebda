// The memory of slabs: a memfd that one process writes and other processes of its job read in
// place.
// Thread: any (functions and values). Not: objects; the accounting of memory, which SlabSpace does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal {

// The seals require a fixed order. The agent creates the file (`create_slab_file`). The writer maps
// it (`WritableSlab`) and reports it. The agent seals it (`seal_slab_file`). Only then may a reader
// get the descriptor (`SlabMapping::map`). From then on, no process can resize the file or write
// through the descriptor, also not after a new open() through /proc. The writer's mapping stays
// valid.

// Time at which a mapping gets its pages: at the first use, or all at once (MAP_POPULATE). The
// latter is cheaper if most pages will be used.
enum class Paging : unsigned char { on_use, at_once };

// Returns `size_bytes` rounded up to whole pages of this machine.
std::uint64_t slab_file_bytes(std::uint64_t size_bytes);

// Creates a memfd of `slab_file_bytes(size_bytes)` with mode 0600 and close-on-exec, without seals.
// `name` is shown in /proc/*/maps. Errors: resource_exhausted without descriptors or memory.
Result<Fd> create_slab_file(std::uint64_t size_bytes, std::string_view name);

// Prevents resizing, writing except through existing mappings, and further seals.
Result<void> seal_slab_file(int fd);

// Checks an untrusted descriptor: a memfd with all seals of `seal_slab_file` and at least
// `size_bytes`. Errors: permission_denied for missing seals.
Result<void> check_slab_file(int fd, std::uint64_t size_bytes);

// A mapping that its last user unmaps.
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

// Writer's mapping of a slab. Move-only. The destructor unmaps it, unless FreshPages is populating
// its pages.
class WritableSlab {
 public:
  // Maps `size_bytes` of an unsealed file. The descriptor is not needed afterwards. Requests huge
  // pages, which only some machines grant for shared memory.
  static Result<WritableSlab> map(int fd, std::uint64_t size_bytes, Paging paging);

  WritableSlab(WritableSlab&&) = default;
  WritableSlab& operator=(WritableSlab&&) = default;
  WritableSlab(const WritableSlab&) = delete;
  WritableSlab& operator=(const WritableSlab&) = delete;

  // Returns the bytes of an extent. Errors: invalid_argument if it is not inside the slab.
  Result<std::span<std::byte>> bytes(std::uint64_t offset, std::uint64_t size_bytes) const;
  std::uint64_t size_bytes() const { return pages_->bytes().size(); }
  // Shared with the thread that populates pages ahead of the writer.
  const std::shared_ptr<const SlabPages>& pages() const { return pages_; }

 private:
  explicit WritableSlab(std::span<std::byte> bytes)
      : pages_(std::make_shared<const SlabPages>(bytes)) {}

  std::shared_ptr<const SlabPages> pages_;  // shared with FreshPages
};

// Reader's mapping of a sealed slab, shared by the views of all objects in it.
class SlabMapping {
 public:
  // Checks the file (`check_slab_file`) and maps it read-only. The descriptor is not needed
  // afterwards. Shared by its views, which outlive calls; the last one unmaps it.
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
