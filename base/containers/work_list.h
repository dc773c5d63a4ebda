// Runs work that produces more work of its kind in a loop, so that chains of any length need no
// stack. The outermost call of `run` processes all items, the oldest first; a nested call only adds
// its item.
// Thread: owner. Not: priorities, a limit.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace mobula::internal {

template <class Item>
class WorkList {
 public:
  // `work(item)` may call `run` of this list.
  template <class Work>
  void run(Item item, Work work) {
    if (std::exchange(running_, true)) return items_.push_back(std::move(item));
    work(item);
    for (std::size_t next = 0; next < items_.size(); ++next) {
      const Item each = std::move(items_[next]);
      work(each);
    }
    items_.clear();
    if (items_.capacity() > max_idle_capacity) items_.shrink_to_fit();
    running_ = false;
  }

 private:
  static constexpr std::size_t max_idle_capacity = 4096;

  std::vector<Item> items_;
  bool running_ = false;
};

}  // namespace mobula::internal
