#include "store/slab.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "store/fresh_pages.h"
#include "store/slab_cache.h"

namespace mobula::internal {
namespace {

constexpr std::uint64_t slab_bytes = 64 * 1024;
constexpr SlabId slab = SlabId::of(1);

std::string reopen_path(const Fd& fd) { return "/proc/self/fd/" + std::to_string(fd.get()); }

int open_descriptors() {
  int count = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

int slab_mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:mobula-test-slab") != std::string::npos) ++count;
  }
  return count;
}

Fd new_file() {
  auto file = create_slab_file(slab_bytes, "mobula-test-slab");
  EXPECT_TRUE(file.ok());
  return std::move(*file);
}

// A sealed slab with its writer.
struct SealedSlab {
  Fd file = new_file();
  WritableSlab writer = *WritableSlab::map(file.get(), slab_bytes, Paging::on_use);

  SealedSlab() { EXPECT_TRUE(seal_slab_file(file.get()).ok()); }
  void write(std::uint64_t offset, std::string_view text) const {
    std::memcpy(writer.bytes(offset, text.size())->data(), text.data(), text.size());
  }
};

std::string_view text_of(const SlabView& view) {
  return {reinterpret_cast<const char*>(view.bytes().data()), view.bytes().size()};
}

TEST(Slab, KeepsPrivateAndClosesOnExec) {
  const Fd file = new_file();
  struct stat status {};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_EQ(status.st_size, static_cast<off_t>(slab_bytes));
  EXPECT_TRUE(::fcntl(file.get(), F_GETFD) & FD_CLOEXEC);
}

TEST(Slab, RoundsSizesToWholePages) {
  const auto file = create_slab_file(1, "mobula-test-slab");
  struct stat status {};
  ASSERT_EQ(::fstat(file->get(), &status), 0);
  EXPECT_EQ(status.st_size, ::sysconf(_SC_PAGESIZE));
  EXPECT_EQ(create_slab_file(0, "x").error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(create_slab_file(~std::uint64_t{0}, "x").error().code, ErrorCode::invalid_argument);
}

TEST(Slab, SealedSlab_WriterContinuesForReaders) {
  SealedSlab sealed;
  sealed.write(128, "before");
  SlabCache cache;
  const auto view = cache.view({slab, 128, 6}, sealed.file.get(), slab_bytes);
  ASSERT_TRUE(view.ok()) << view.error().text;
  EXPECT_EQ(text_of(*view), "before");
  sealed.write(256, "after");
  EXPECT_EQ(text_of(*cache.view({slab, 256, 5})), "after");
}

TEST(Slab, Seals_RejectOtherWritesAndResizes) {
  SealedSlab sealed;
  sealed.write(0, "kept");
  EXPECT_LT(::pwrite(sealed.file.get(), "x", 1, 0), 0);
  EXPECT_LT(::ftruncate(sealed.file.get(), 0), 0);
  EXPECT_LT(::ftruncate(sealed.file.get(), 2 * slab_bytes), 0);
  EXPECT_LT(::fallocate(sealed.file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  EXPECT_LT(::fcntl(sealed.file.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);

  const Fd again(::open(reopen_path(sealed.file).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(again) << "the same user may open it again";
  EXPECT_LT(::pwrite(again.get(), "x", 1, 0), 0);
  EXPECT_EQ(::mmap(nullptr, slab_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0),
            MAP_FAILED);
  void* readable = ::mmap(nullptr, slab_bytes, PROT_READ, MAP_SHARED, again.get(), 0);
  ASSERT_NE(readable, MAP_FAILED);
  EXPECT_NE(::mprotect(readable, slab_bytes, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(std::memcmp(readable, "kept", 4), 0);
  ::munmap(readable, slab_bytes);
}

TEST(Slab, RejectsUnsealedOrForeignDescriptor) {
  const Fd unsealed = new_file();
  EXPECT_EQ(SlabMapping::map(unsealed.get(), slab_bytes, Paging::on_use).error().code,
            ErrorCode::permission_denied);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const Fd read_end(ends[0]);
  const Fd write_end(ends[1]);
  EXPECT_FALSE(SlabMapping::map(read_end.get(), slab_bytes, Paging::on_use).ok());
  EXPECT_FALSE(SlabMapping::map(-1, slab_bytes, Paging::on_use).ok());
}

TEST(Slab, RejectsRangeBeyondFile) {
  SealedSlab sealed;
  EXPECT_EQ(SlabMapping::map(sealed.file.get(), slab_bytes + 1, Paging::on_use).error().code,
            ErrorCode::invalid_argument);
  SlabCache cache;
  const int fd = sealed.file.get();
  EXPECT_FALSE(cache.view({slab, slab_bytes - 1, 2}, fd, slab_bytes).ok());
  EXPECT_FALSE(cache.view({slab, slab_bytes + 1, 0}, fd, slab_bytes).ok());
  EXPECT_FALSE(cache.view({slab, 64, ~std::uint64_t{0}}, fd, slab_bytes).ok());
  EXPECT_EQ(cache.mapped(), 0u);
  EXPECT_TRUE(cache.view({slab, slab_bytes, 0}, fd, slab_bytes).ok());
  EXPECT_EQ(sealed.writer.bytes(slab_bytes, 1).error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(WritableSlab::map(sealed.file.get(), slab_bytes, Paging::on_use).ok());
}

TEST(Slab, PopulatesMappingAtOnce) {
  const Fd file = new_file();
  const auto writer = WritableSlab::map(file.get(), slab_bytes, Paging::at_once);
  ASSERT_TRUE(writer.ok());
  std::array<unsigned char, slab_bytes / 4096> resident{};
  ASSERT_EQ(::mincore(writer->bytes(0, slab_bytes)->data(), slab_bytes, resident.data()), 0);
  EXPECT_TRUE(std::all_of(resident.begin(), resident.end(), [](auto page) { return page & 1; }));
}

TEST(SlabCache, SharesOneMappingAmongViews) {
  SealedSlab sealed;
  SlabCache cache;
  const int before = slab_mappings();
  {
    const auto first = cache.view({slab, 0, 8}, sealed.file.get(), slab_bytes);
    const auto second = cache.view({slab, 64, 8}, -1, slab_bytes);
    ASSERT_TRUE(second.ok()) << "a mapped slab needs no descriptor";
    EXPECT_EQ(second->bytes().data(), first->bytes().data() + 64);
    EXPECT_EQ(slab_mappings(), before + 1);
    SlabView kept = *first;
    std::thread([view = std::move(kept)] { EXPECT_EQ(view.bytes().size(), 8u); }).join();
    EXPECT_TRUE(cache.maps(slab));
  }
  EXPECT_FALSE(cache.maps(slab));
  EXPECT_EQ(slab_mappings(), before);
  EXPECT_EQ(cache.view({slab, 0, 8}).error().code, ErrorCode::not_found);
  EXPECT_TRUE(cache.view({slab, 0, 8}, sealed.file.get(), slab_bytes).ok());
}

TEST(SlabCache, ViewsOutliveCacheAndDescriptor) {
  std::optional<SlabView> view;
  {
    SealedSlab sealed;
    sealed.write(0, "still here");
    SlabCache cache;
    view = *cache.view({slab, 0, 10}, sealed.file.get(), slab_bytes);
  }
  EXPECT_EQ(text_of(*view), "still here");
}

// As in a cluster, the writer is another process: it maps the file of the agent, which then seals
// it.
TEST(Slab, ReadsWhatAnotherProcessWrites) {
  const Fd file = new_file();
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  Fd here(ends[0]);
  Fd there(ends[1]);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    char turn = 0;
    auto writer = WritableSlab::map(file.get(), slab_bytes, Paging::on_use);
    if (!writer.ok() || ::write(there.get(), "m", 1) != 1) ::_exit(1);
    if (::read(there.get(), &turn, 1) != 1) ::_exit(2);
    std::memcpy(writer->bytes(4096, 5)->data(), "hello", 5);
    ::_exit(::write(there.get(), "w", 1) == 1 ? 0 : 3);
  }
  there.reset();
  char turn = 0;
  ASSERT_EQ(::read(here.get(), &turn, 1), 1);
  ASSERT_TRUE(seal_slab_file(file.get()).ok());
  ASSERT_EQ(::write(here.get(), "s", 1), 1);
  ASSERT_EQ(::read(here.get(), &turn, 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  SlabCache cache;
  EXPECT_EQ(text_of(*cache.view({slab, 4096, 5}, file.get(), slab_bytes)), "hello");
}

constexpr std::uint64_t large_slab_bytes = std::uint64_t{48} << 20;

struct LargeSlab {
  Fd file = *create_slab_file(large_slab_bytes, "mobula-test-slab");
  std::optional<WritableSlab> writer =
      *WritableSlab::map(file.get(), large_slab_bytes, Paging::on_use);

  // Resident size of the file in MiB.
  std::uint64_t resident() const {
    struct stat status {};
    EXPECT_EQ(::fstat(file.get(), &status), 0);
    return static_cast<std::uint64_t>(status.st_blocks) * 512 >> 20;
  }
};

TEST(FreshPages, PopulatesPagesBeforeWrites) {
  LargeSlab slab_of_pages;
  FreshPages pages([] { return true; });
  pages.will_write(*slab_of_pages.writer, 0, 10 << 20);
  pages.finish();
  EXPECT_EQ(slab_of_pages.resident(), 20u) << "the written range, and the same amount after it";
  pages.will_write(*slab_of_pages.writer, 5 << 20, 15 << 20);
  pages.finish();
  EXPECT_EQ(slab_of_pages.resident(), 20u) << "they were taken before";
  pages.will_write(*slab_of_pages.writer, 20 << 20, 28 << 20);
  pages.finish();
  EXPECT_EQ(slab_of_pages.resident(), 48u) << "not beyond the slab";
}

TEST(FreshPages, NoIdleCore_PopulatesNothing) {
  LargeSlab slab_of_pages;
  FreshPages pages([] { return false; });
  pages.will_write(*slab_of_pages.writer, 0, 10 << 20);
  pages.finish();
  EXPECT_EQ(slab_of_pages.resident(), 0u);
}

TEST(FreshPages, SlabReleasedMeanwhile_PopulationEnds) {
  const int mappings = slab_mappings();
  LargeSlab slab_of_pages;
  FreshPages pages([] { return true; });
  pages.will_write(*slab_of_pages.writer, 0, large_slab_bytes);
  slab_of_pages.writer.reset();
  pages.finish();
  EXPECT_EQ(slab_mappings(), mappings);
}

TEST(Slab, Release_LeavesNothing) {
  const int descriptors = open_descriptors();
  const int mappings = slab_mappings();
  for (int round = 0; round < 50; ++round) {
    SealedSlab sealed;
    SlabCache cache;
    auto view = cache.view({slab, 0, 100}, sealed.file.get(), slab_bytes);
    ASSERT_TRUE(view.ok());
    WritableSlab moved = std::move(sealed.writer);
    sealed.writer = std::move(moved);
    ASSERT_FALSE(SlabMapping::map(sealed.file.get(), 2 * slab_bytes, Paging::on_use).ok());
  }
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(slab_mappings(), mappings);
}

}  // namespace
}  // namespace mobula::internal
