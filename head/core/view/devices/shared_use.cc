#include "head/core/view/devices/shared_use.h"

#include "head/core/head_tables.h"

namespace mobula::internal::head {

scheduler::Use shared_use(const HeadTables& tables) {
  auto use = tables.scheduler.cluster_use();
  std::erase_if(use, [](const auto& each) { return each.first.starts_with("node:"); });
  return use;
}

}  // namespace mobula::internal::head
