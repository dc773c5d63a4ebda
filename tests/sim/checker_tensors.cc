// Tensors whose elements stay where they were made: they are freed when nobody refers to them, not before.
#include <algorithm>

#include "sim/process_role.h"
#include "sim/world.h"

namespace mobula::internal::sim {

void Checkers::tensor_freed(Process& holder, ObjectId tensor) {
  if (lossy_) return;
  // With its driver, which has let go of everything by then, the job ends, and all holds of it.
  const bool job_goes_on = std::ranges::any_of(world_.processes(), [&](const Process* each) {
    return each->is_driver() && each->alive() && each->job() == holder.job() && !each->client().empty();
  });
  if (!job_goes_on) return;
  for (const Process* each : world_.processes()) {
    if (!each->alive() || each == &holder) continue;
    const auto* row = each->client().object(tensor);
    if (row == nullptr || (row->refs == 0 && row->pins == 0)) continue;
    return world_.violation("tensors", holder.name() + " frees elements " + tensor.brief() + " that " + each->name() +
                                           " refers to");
  }
}

}  // namespace mobula::internal::sim
