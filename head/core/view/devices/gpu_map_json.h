// JSON of the GPU map: the shares of each GPU that slots and bundles hold, its memory, and its
// largest holders. It has a part of the nodes, and costs time proportional to their devices.
// Thread: any. Read-only. Not: for sources outside this directory.
#pragma once

#include "head/core/view/documents.h"
#include "head/core/view/list_part.h"

namespace mobula::internal::head {

// Adds the nodes with GPUs that are in the part: their devices in the order of their indices, each
// with at most `max_gpu_holders` holders. `gpus` is the number of all GPUs.
void add_gpus_part(const HeadTables& tables, const ListPart& part, Json& json);
inline constexpr std::size_t max_gpu_holders = 3;

}  // namespace mobula::internal::head
