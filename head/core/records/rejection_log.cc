#include "head/core/records/rejection_log.h"

#include <utility>

namespace mobula::internal::head {

std::optional<std::uint64_t> RejectionLog::refused(Time now, const std::string& source) {
  ++count_;
  auto at = sources_.find(source);
  if (at == sources_.end() && sources_.size() >= max_sources) {
    std::erase_if(sources_, [&](const auto& each) { return now - each.second.said >= quiet; });
    if (sources_.size() >= max_sources) at = sources_.try_emplace("", Source{}).first;
  }
  if (at == sources_.end()) {
    sources_.emplace(source, Source{now, 0});
    return 0;
  }
  Source& known = at->second;
  if (now - known.said < quiet && known.said != Time{}) {
    ++known.unsaid;
    return std::nullopt;
  }
  known.said = now;
  return std::exchange(known.unsaid, 0);
}

}  // namespace mobula::internal::head
