// Metrics of the cluster in the text format of Prometheus. Names have the prefix mobula_.
// No label has the id of a task or a process. Labels with values of users are `name`, with at most
// UseTable::max_names of them and "other", and `resource`, with LabelValues::max_values.
// Thread: owner (one HeadCore).
#pragma once

#include <string>

#include "head/core/view/metrics_writer.h"
#include "scheduler/scheduler.h"

namespace mobula::internal::head {

struct HeadTables;
class LabelValues;

// `resource_labels` keeps the values of the label `resource` between scrapes.
std::string metrics_text(const HeadTables& tables, LabelValues& resource_labels);

// Adds the totals and granted amounts of the resources. The label always has CPU, memory, and
// devices as values; `values` limits the others.
void add_resources(const scheduler::Use& use, Time now, LabelValues& values, MetricsWriter& out);

}  // namespace mobula::internal::head
