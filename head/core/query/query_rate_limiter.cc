#include "head/core/query/query_rate_limiter.h"

#include <algorithm>
#include <cmath>

#include "base/coverage_mark.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_too_often("head.queried_too_often");

constexpr std::uint64_t cost_of_querying_all = 20;
constexpr std::size_t bytes_of_one = 16 * 1024;

}  // namespace

QueryRateLimiter::Left& QueryRateLimiter::left(Time now, const std::string& user_id) {
  const double most = static_cast<double>(at_once_);
  const double rate = static_cast<double>(per_second_);
  const auto grown = [&](const Left& each) {
    return std::min(most,
                    each.questions + rate * std::chrono::duration<double>(now - each.at).count());
  };
  auto at = keys_.find(user_id);
  if (at == keys_.end()) {
    // A key with its full budget is equivalent to an unknown key.
    if (keys_.size() >= max_keys)
      std::erase_if(keys_, [&](const auto& each) { return grown(each.second) >= most; });
    if (keys_.size() >= max_keys) return keys_[""];  // further keys share one budget
    at = keys_.emplace(user_id, Left{now, most}).first;
  }
  at->second = {now, grown(at->second)};
  return at->second;
}

std::optional<Duration> QueryRateLimiter::admit(Time now, const std::string& user_id,
                                                std::uint64_t cost) {
  if (at_once_ == 0 || per_second_ == 0) return std::nullopt;
  Left& has = left(now, user_id);
  const double needed = std::min(static_cast<double>(cost), static_cast<double>(at_once_));
  if (has.questions >= needed) {
    has.questions -= static_cast<double>(cost);
    return std::nullopt;
  }
  mark_too_often.hit();
  ++refused_;
  const double seconds = (needed - has.questions) / static_cast<double>(per_second_);
  return std::chrono::milliseconds(
      std::max<std::int64_t>(1, std::llround(std::ceil(seconds * 1000))));
}

void QueryRateLimiter::charge(Time now, const std::string& user_id, std::uint64_t cost) {
  if (at_once_ == 0 || per_second_ == 0 || cost == 0) return;
  left(now, user_id).questions -= static_cast<double>(cost);
}

std::uint64_t cost_of(std::string_view verb, std::string_view kind) {
  if (verb == "timeline") return cost_of_querying_all;
  const bool reads = verb == "list" || verb == "get" || verb == "explain";
  const bool queries_all = kind == "tasks" || kind == "task" || kind == "task-counts" ||
                           kind == "objects" || kind == "object" || kind == "memory" ||
                           kind == "transfers";
  return reads && queries_all ? cost_of_querying_all : 1;
}

std::uint64_t cost_of_answer(std::size_t bytes) { return bytes / bytes_of_one; }

}  // namespace mobula::internal::head
