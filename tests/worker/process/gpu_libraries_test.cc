// Parsing of the output of the program that opens the GPU libraries.
#include "worker/process/watch/gpu_libraries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mobula::internal::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

GpuLibraries probe(const std::string& text, Duration timeout = 60s) {
  return probe_gpu_libraries({"/bin/sh", "-c", text}, timeout);
}

TEST(GpuLibrariesTest, ReadsVersionsAmongOtherOutput) {
  const auto found = probe(
      "echo NCCL INFO says; echo 'mobula-gpu-library cuda 12.4'; echo more >&2; echo "
      "'mobula-gpu-library nccl 2.21.5'");
  EXPECT_EQ(found.cuda, "12.4");
  EXPECT_EQ(found.nccl, "2.21.5");
  EXPECT_TRUE(found.notes.empty());
}

TEST(GpuLibrariesTest, RecordsUnusableLibraries) {
  const auto found = probe(
      "echo 'mobula-gpu-library cuda 12.4'; echo 'mobula-gpu-library nccl - libnccl.so.2: not "
      "found'; exit 3");
  EXPECT_EQ(found.cuda, "12.4");
  EXPECT_EQ(found.nccl, "");
  EXPECT_THAT(found.notes, ElementsAre("NCCL cannot be used: libnccl.so.2: not found"));
}

TEST(GpuLibrariesTest, LibraryCrashOrHang_KeepsOtherResults) {
  const auto crashed = probe("echo 'mobula-gpu-library cuda 12.4'; kill -SEGV $$");
  EXPECT_EQ(crashed.cuda, "12.4");
  EXPECT_EQ(crashed.nccl, "");
  const auto hangs = probe("echo 'mobula-gpu-library cuda 12.4'; exec sleep 600", 200ms);
  EXPECT_THAT(hangs.notes, ElementsAre(HasSubstr("were not opened within")));
  const auto prints = probe("exec yes");
  EXPECT_THAT(prints.notes, ElementsAre(HasSubstr("were not opened within")));
  EXPECT_TRUE(probe_gpu_libraries({}, 1s).notes.empty());
  EXPECT_EQ(probe_gpu_libraries({"/no/such/program"}, 60s).nccl, "");
}

}  // namespace
}  // namespace mobula::internal::worker
