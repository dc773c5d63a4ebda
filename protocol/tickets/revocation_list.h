// Revocation list: keys that the head accepted once and rejects now, because their token was
// revoked or has expired. Keys have the names that tickets use ("token:ID"). Tickets that such a
// key, or an agent admitted by it, vouches for are rejected. Bounded: the oldest entry is dropped.
// Thread: owner.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <vector>

namespace mobula::internal {

class RevocationList {
 public:
  static constexpr std::size_t bound = 16'384;  // exceeds the number of tokens of a head

  RevocationList() = default;
  explicit RevocationList(const std::vector<std::string>& keys) { add(keys); }

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
  std::deque<std::string> order_;  // in order of insertion
};

}  // namespace mobula::internal
