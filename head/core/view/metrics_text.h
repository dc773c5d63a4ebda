// Metrics of the cluster in the text format of Prometheus. Names have the prefix mobula_.
// No label has the id of a task or a process. The only label whose values come from users is
// `name`, and it has at most UseTable::max_names values and "other".
// Thread: any. Read-only.
#pragma once

#include <string>

namespace mobula::internal::head {

struct HeadTables;

std::string metrics_text(const HeadTables& tables);

}  // namespace mobula::internal::head
