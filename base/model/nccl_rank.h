// Rule for NCCL ranks that share a GPU: NCCL 2.30 and its switch, in every process of the
// communicator.
// Thread: any (pure).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace mobula::internal {

// Switch of NCCL 2.30 and newer. Executors set it to 1 unless the user has set it.
inline constexpr const char* nccl_sharing_variable = "NCCL_MULTI_RANK_GPU_ENABLE";
inline constexpr int first_nccl_with_sharing = 23'000;  // 2.30.0, as the library reports versions

// Returns true if a library of this version accepts several ranks on one GPU. `value` is that of
// the environment variable NCCL_MULTI_RANK_GPU_ENABLE; null: not set.
bool accepts_shared_gpu(int version, const char* value);

// One process of a communicator, as the process reports it.
struct NcclRank {
  std::string name;     // human-readable, such as "rank 2 (actor 0123)"
  std::string host;     // equal for ranks of one host
  std::string gpu;      // UUID
  std::string version;  // such as "2.30.7"
  // Result of `accepts_shared_gpu`. Earlier releases do not report it, which means false.
  bool shares_gpu = false;
};

struct NcclObjection {
  std::size_t rank = 0;  // the second rank on the GPU
  std::string text;      // the two ranks, the GPU, and the remedy
};

// Two ranks that share a GPU; empty: all differ.
struct NcclPair {
  std::size_t first = 0, second = 0;
};
std::optional<NcclPair> ranks_on_one_gpu(const std::vector<NcclRank>& ranks);

// Returns the reason why NCCL would reject these ranks: two share a GPU, and one of all ranks does
// not accept that. Empty if no rank must be rejected.
std::optional<NcclObjection> objection_to_sharing(const std::vector<NcclRank>& ranks);

}  // namespace mobula::internal
