#include "mobula/detail/stages.h"

#include "base/time.h"

namespace mobula::detail {

void Stages::note(Stage stage) {
  passed_[static_cast<std::size_t>(stage)].store(internal::monotonic_now().ns(),
                                                 std::memory_order_relaxed);
}

Stages& stages() {
  static Stages of_process;
  return of_process;
}

}  // namespace mobula::detail
