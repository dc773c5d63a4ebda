// Replica holders of chunks: redirects to them, and the backoff after one has failed.
#include <algorithm>
#include <utility>

#include "base/coverage_mark.h"
#include "tensor/exchange/core/tensor_pulls.h"

namespace mobula::internal::transfer {
namespace {

const CoverageMark mark_replica_failed("regions.replica_failed");
const CoverageMark mark_replica_avoided("regions.replica_avoided");

}  // namespace

void TensorPulls::reached(RegionPullId id, ProcessId replica_holder,
                          std::vector<DirectPath> paths) {
  const auto at = pulls_.find(id);
  if (at == pulls_.end()) return;
  auto& pull = at->second;
  if (pull.stage != Stage::reaching || pull.holders.front().process != replica_holder) return;
  std::erase_if(paths,
                [](DirectPath path) { return is_two_sided(path) || path == DirectPath::store; });
  pull.due.reset();
  if (paths.empty()) {
    back_off(replica_holder);
    pull.gone.insert(replica_holder);
    pull.holders.pop_front();
    return next_try(id, pull);
  }
  pull.holders.front().paths = std::move(paths);
  request(id, pull);
}

// Follows each redirect at most once and never to a known holder, so that redirects in a circle
// have no effect.
void TensorPulls::follow(Pull& pull, const std::vector<ProcessId>& replica_holders) {
  constexpr std::size_t most_named = 4;
  for (std::size_t i = 0; i < std::min(replica_holders.size(), most_named); ++i) {
    const auto other = replica_holders[i];
    const bool is_known = std::ranges::any_of(
        pull.holders, [&](const Holder& each) { return each.process == other; });
    if (is_known || pull.gone.contains(other) || other == context_.self) continue;
    if (is_backed_off(other)) {
      mark_replica_avoided.hit();
      continue;
    }
    pull.holders.push_front({.process = other, .keeps = true});
  }
}

bool TensorPulls::is_backed_off(ProcessId replica_holder) const {
  const auto at = backed_off_.find(replica_holder);
  return at != backed_off_.end() && context_.now < at->second;
}

void TensorPulls::back_off(ProcessId replica_holder) {
  mark_replica_failed.hit();
  if (backed_off_.size() >= context_.options.max_holders_backed_off) {
    std::erase_if(backed_off_, [&](const auto& each) { return each.second <= context_.now; });
  }
  if (backed_off_.size() < context_.options.max_holders_backed_off)
    backed_off_[replica_holder] = context_.now + context_.options.shim_backoff;
}

}  // namespace mobula::internal::transfer
