// Tensors whose elements stay where they were made: they are freed when nobody refers to them, not before.
#include "sim/process_role.h"
#include "sim/world.h"

namespace mobula::internal::sim {

void Checkers::tensor_freed(Process& holder, ObjectId tensor) {
  if (lossy_) return;
  for (const Process* each : world_.processes()) {
    if (!each->alive() || each == &holder) continue;
    const auto* row = each->client().object(tensor);
    if (row == nullptr || (row->refs == 0 && row->pins == 0)) continue;
    return world_.violation("tensors", holder.name() + " frees elements " + tensor.brief() + " that " + each->name() +
                                           " refers to");
  }
}

void Checkers::elements_there(Process& executor, const executor::RunCall& run, bool fetched) {
  if (fetched) return;
  for (const auto& argument : *run.call.arguments) {
    if (argument.is_ref) continue;
    for (const auto& ref : argument.value.contained) {
      if (ref.tensor.is_empty()) continue;
      return world_.violation("tensors", executor.name() + " starts " + run.call.form->name + " without the elements " +
                                             ref.object.brief() + " of its argument");
    }
  }
}

}  // namespace mobula::internal::sim
