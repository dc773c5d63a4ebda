// Keys that the head has let in once and lets in no more: tokens that were revoked or have expired, by
// the names under which tickets know them ("token:ID"). Whatever such a key, or an agent that came in by
// it, vouches for is refused, for as long as a ticket that was signed before may be in force. Bounded:
// the one that was added first is forgotten. Not thread-safe.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <vector>

namespace mobula::internal {

class VoidKeys {
 public:
  static constexpr std::size_t bound = 16'384;  // above the tokens of a head

  VoidKeys() = default;
  explicit VoidKeys(const std::vector<std::string>& keys) { add(keys); }

  void add(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      if (key.empty() || !keys_.insert(key).second) continue;
      order_.push_back(key);
      if (order_.size() <= bound) continue;
      keys_.erase(order_.front());
      order_.pop_front();
    }
  }
  bool contains(const std::string& key) const { return keys_.contains(key); }
  bool empty() const { return keys_.empty(); }
  std::vector<std::string> list() const { return {order_.begin(), order_.end()}; }

 private:
  std::set<std::string> keys_;
  std::deque<std::string> order_;  // as they came
};

}  // namespace mobula::internal
