#include "base/model/nccl_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <utility>

namespace mobula::internal {
namespace {

// Version such as 23000 of a text such as "2.30.7", without its last part; 0 for other texts.
int minor_version(const std::string& text) {
  const char* const end = text.data() + text.size();
  int major = 0, minor = 0;
  const auto dot = std::from_chars(text.data(), end, major);
  if (dot.ec != std::errc() || dot.ptr == end || *dot.ptr != '.') return 0;
  if (std::from_chars(dot.ptr + 1, end, minor).ec != std::errc()) return 0;
  return major * 10'000 + minor * 100;
}

std::string remedy_for(const NcclRank& rank) {
  if (minor_version(rank.version) < first_nccl_with_sharing) {
    return fmt::format(
        "the NCCL of {} is {}, which accepts one rank per GPU; install 2.30 or newer", rank.name,
        rank.version.empty() ? "unknown" : rank.version);
  }
  return fmt::format("{} does not report {}=1; set it to 1 or unset it, in this release of Mobula",
                     rank.name, nccl_sharing_variable);
}

}  // namespace

bool accepts_shared_gpu(int version, const char* value) {
  return version >= first_nccl_with_sharing && value != nullptr &&
         std::strtoll(value, nullptr, 0) != 0;
}

std::optional<NcclPair> ranks_on_one_gpu(const std::vector<NcclRank>& ranks) {
  std::map<std::pair<std::string, std::string>, std::size_t> gpus;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto [at, fresh] = gpus.emplace(std::pair(ranks[rank].host, ranks[rank].gpu), rank);
    if (!fresh) return NcclPair{at->second, rank};
  }
  return std::nullopt;
}

std::optional<NcclObjection> objection_to_sharing(const std::vector<NcclRank>& ranks) {
  const auto pair = ranks_on_one_gpu(ranks);
  if (!pair) return std::nullopt;
  const auto refuses = std::ranges::find(ranks, false, &NcclRank::shares_gpu);
  if (refuses == ranks.end()) return std::nullopt;
  const NcclRank& second = ranks[pair->second];
  return NcclObjection{
      pair->second, fmt::format("{} and {} share {}, and {}", ranks[pair->first].name, second.name,
                                second.gpu, remedy_for(*refuses))};
}

}  // namespace mobula::internal
