#include "sim/kernel.h"

#include <algorithm>

namespace mobula::internal::sim {

void Kernel::at(Time when, Action action) {
  heap_.push_back({std::max(when, now_), ++sequence_, std::move(action)});
  std::push_heap(heap_.begin(), heap_.end());
}

bool Kernel::step() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end());
  Entry entry = std::move(heap_.back());
  heap_.pop_back();
  now_ = entry.when;
  ++steps_;
  entry.action();
  return true;
}

}  // namespace mobula::internal::sim
