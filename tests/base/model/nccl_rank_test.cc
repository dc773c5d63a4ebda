// Ranks that share a GPU, with every combination of versions and switches.
#include "base/model/nccl_rank.h"

#include <gmock/gmock.h>

namespace mobula::internal {
namespace {

using testing::HasSubstr;

NcclRank rank_of(int number, const char* gpu, const char* version, bool shares_gpu) {
  return {"rank " + std::to_string(number), "host", gpu, version, shares_gpu};
}

std::string text_of(const std::optional<NcclObjection>& objection) {
  return objection ? objection->text : "none";
}

TEST(NcclRank, AcceptsSharedGpuSinceRelease230) {
  EXPECT_TRUE(accepts_shared_gpu(23'007, "1"));
  EXPECT_TRUE(accepts_shared_gpu(23'000, "0x1"));
  EXPECT_FALSE(accepts_shared_gpu(22'999, "1"));
  for (const char* const off : {"0", "", "yes"}) EXPECT_FALSE(accepts_shared_gpu(23'007, off));
  EXPECT_FALSE(accepts_shared_gpu(23'007, nullptr)) << "the library's own default";
}

TEST(NcclRank, AcceptsDifferentGpusWithAnyVersion) {
  EXPECT_EQ(text_of(objection_to_sharing(
                {rank_of(0, "GPU-a", "2.28.9", false), rank_of(1, "GPU-b", "2.28.9", false)})),
            "none");
  auto far = rank_of(1, "GPU-a", "2.28.9", false);
  far.host = "another";
  EXPECT_EQ(text_of(objection_to_sharing({rank_of(0, "GPU-a", "2.28.9", false), far})), "none");
}

TEST(NcclRank, AcceptsSharedGpuIfAllRanksDo) {
  const std::vector<NcclRank> all{rank_of(0, "GPU-a", "2.30.7", true),
                                  rank_of(1, "GPU-b", "2.30.7", true),
                                  rank_of(2, "GPU-a", "2.30.7", true)};
  EXPECT_EQ(text_of(objection_to_sharing(all)), "none");
  // One rank without the switch rejects the communicator, even on another GPU.
  for (std::size_t off = 0; off < all.size(); ++off) {
    auto ranks = all;
    ranks[off].shares_gpu = false;
    const auto objection = objection_to_sharing(ranks);
    ASSERT_TRUE(objection) << off;
    EXPECT_EQ(objection->rank, 2u);
    EXPECT_EQ(objection->text, "rank 0 and rank 2 share GPU-a, and rank " + std::to_string(off) +
                                   " does not report NCCL_MULTI_RANK_GPU_ENABLE=1; set it to 1 or "
                                   "unset it, in this release of Mobula");
  }
}

TEST(NcclRank, NamesVersionToInstall) {
  const auto text = text_of(objection_to_sharing(
      {rank_of(0, "GPU-a", "2.28.9", false), rank_of(1, "GPU-a", "2.28.9", false)}));
  EXPECT_EQ(text,
            "rank 0 and rank 1 share GPU-a, and the NCCL of rank 0 is 2.28.9, which accepts one "
            "rank per GPU; install 2.30 or newer");
  for (const char* const odd : {"", "2", "two.30", "3.x"}) {
    EXPECT_THAT(text_of(objection_to_sharing(
                    {rank_of(0, "GPU-a", odd, false), rank_of(1, "GPU-a", "2.30.7", true)})),
                HasSubstr("install 2.30 or newer"));
  }
}

}  // namespace
}  // namespace mobula::internal
