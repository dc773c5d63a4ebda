// Rate limiter of queries per key: a burst, and a rate after it, so that no reader blocks the head
// for others. The cost of a query depends on the work of the head. At the limit of keys, those with
// a full budget are removed.
// Thread: owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace mobula::internal::head {

class QueryRateLimiter {
 public:
  QueryRateLimiter(std::uint64_t at_once, std::uint64_t per_second)
      : at_once_(at_once), per_second_(per_second) {}

  // Takes `cost` from the budget of the key. Returns nothing on success, otherwise the time until
  // the next attempt.
  std::optional<Duration> admit(Time now, const std::string& user_id, std::uint64_t cost);
  // Takes the cost of a finished reply. The next query waits for it.
  void charge(Time now, const std::string& user_id, std::uint64_t cost);
  std::uint64_t refused() const { return refused_; }

 private:
  static constexpr std::size_t max_keys = 16'384;

  struct Left {
    Time at;
    double questions = 0;  // below 0: debt
  };
  Left& left(Time now, const std::string& user_id);

  const std::uint64_t at_once_;
  const std::uint64_t per_second_;
  std::map<std::string, Left> keys_;
  std::uint64_t refused_ = 0;
};

// Cost of a query before its reply. Queries that the head forwards to all nodes or processes cost
// more.
std::uint64_t cost_of(std::string_view verb, std::string_view kind);
// Additional cost of a reply of this size.
std::uint64_t cost_of_answer(std::size_t bytes);

}  // namespace mobula::internal::head
