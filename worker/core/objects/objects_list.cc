// Lists of the objects of this node, for the head and for tests.
#include <algorithm>

#include "worker/core/objects/objects.h"

namespace mobula::internal::worker {

ObjectFact Objects::fact_of(ObjectId object, const ObjectRow& row) const {
  ObjectFact fact;
  fact.object = object;
  fact.job = row.job;
  fact.size_bytes =
      static_cast<std::int64_t>(row.has_location() ? row.location.size_bytes : row.disk_bytes);
  fact.sealed = row.here();
  fact.home = holds_.at(object).home;
  fact.processes = row.processes.size();
  fact.nodes = row.nodes.size();
  fact.spilled = row.state == ObjectState::spilled;
  fact.secondary = row.state == ObjectState::sealed && memory_.secondary(object, row);
  for (const ProcessId process : row.processes) {
    if (fact.holders.size() >= ObjectFact::max_holders) break;
    HolderFact holder;
    holder.process = process;
    holder.reads = memory_.maps(process, object);
    if (const ProcessRow* known = context_.processes.find(process)) {
      holder.role = known->principal.role;
      holder.pid = known->pid;
    }
    fact.holders.push_back(holder);
  }
  for (const NodeId node : row.nodes) {
    if (fact.holding_nodes.size() >= ObjectFact::max_holders) break;
    fact.holding_nodes.push_back(node);
  }
  return fact;
}

ObjectsReply Objects::list(std::uint64_t limit, bool largest_first) const {
  ObjectsReply listed;
  std::vector<std::pair<std::uint64_t, ObjectId>> sizes;
  for (const auto& [object, row] : context_.table.objects()) {
    if (!row.has_location() && !row.here()) continue;  // not on this node
    sizes.emplace_back(row.has_location() ? row.location.size_bytes : row.disk_bytes, object);
  }
  if (largest_first) {
    std::stable_sort(sizes.begin(), sizes.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
  }
  for (const auto& [size, object] : sizes) {
    if (listed.objects.size() >= limit) break;
    listed.objects.push_back(fact_of(object, *context_.table.find(object)));
  }
  listed.left_out = sizes.size() - listed.objects.size();
  listed.store = store();
  return listed;
}

ObjectsReply Objects::list_these(const std::vector<ObjectId>& objects) const {
  ObjectsReply listed;
  for (const ObjectId object : objects) {
    const ObjectRow* row = context_.table.find(object);
    if (row != nullptr && holds_.find(object) != nullptr)
      listed.objects.push_back(fact_of(object, *row));
  }
  listed.store = store();
  return listed;
}

StoreFact Objects::store() const {
  const SlabSpace& space = context_.table.space();
  StoreFact store;
  store.capacity_bytes = static_cast<std::int64_t>(space.capacity_bytes());
  store.committed_bytes = static_cast<std::int64_t>(space.committed_bytes());
  store.used_bytes = static_cast<std::int64_t>(space.used_bytes());
  store.spilled_bytes = static_cast<std::int64_t>(context_.table.spilled_bytes());
  store.file_bytes = static_cast<std::int64_t>(spill_.files().file_bytes());
  if (!context_.options.spill) {
    store.spilling = "spilling is switched off";
  } else if (const auto& failed = spill_.failure_of_write()) {
    store.spilling = failed->text;
  }
  const Left left = left_to_others();
  store.leaving_objects = static_cast<std::int64_t>(left.objects);
  store.leaving_bytes = static_cast<std::int64_t>(left.bytes);
  return store;
}

std::vector<std::pair<ObjectId, ProcessId>> Objects::awaited_without_bytes() const {
  std::vector<std::pair<ObjectId, ProcessId>> awaited;
  for (const auto& [object, held] : holds_.all()) {
    if (!holds_.at_home(held)) continue;
    const bool waits = reads_.has_readers(object) || directory_.has_waiters(object);
    const bool hopeless = directory_.claimed(object) && !held.failure &&
                          !reads_.queries_head(object) && !directory_.has_bytes_somewhere(object);
    if (waits && hopeless) awaited.emplace_back(object, held.owner);
  }
  return awaited;
}

std::set<JobId> Objects::jobs() const {
  // Slabs of the agent, empty or not, remain until their job has ended.
  std::set<JobId> out = context_.table.space().jobs();
  for (const auto& [job, use] : context_.table.jobs()) out.insert(job);
  out.erase(JobId{});
  return out;
}

}  // namespace mobula::internal::worker
