#include "worker/ring_table.h"

#include <algorithm>

#include "base/logging/log.h"
#include "transport/local/shared_memory.h"
#include "transport/ring/ring.h"

namespace mobula::internal::worker {

RingTable::RingTable(ProcessLinks& links, std::size_t max_rings_per_process)
    : links_(links), max_rings_(std::min(max_rings_per_process, max_rings)) {}

void RingTable::joined(LinkId link, ProcessId process, JobId job, bool is_actor) {
  // The end of a closed link was reported before and is not reported again.
  if (max_rings_ == 0 || !links_.is_open(link)) return;
  auto doorbell = DoorbellFiles::create();
  auto copy = doorbell ? doorbell->copy() : Result<DoorbellFiles>(doorbell.error());
  if (!copy) return log_warn("a process has no rings: {}", copy.error().text);
  std::vector<Fd> fds;
  fds.push_back(std::move(copy->page));
  fds.push_back(std::move(copy->event));
  if (auto spin = spin_limit_ != nullptr ? spin_limit_->file() : Result<Fd>(Fd()); spin && *spin) {
    fds.push_back(std::move(*spin));
  }
  Process row;
  row.link = link;
  row.job = job;
  row.is_actor = is_actor;
  row.doorbell = std::move(*doorbell);
  processes_.insert_or_assign(process, std::move(row));
  of_link_[link] = process;
  links_.send(link, UseDoorbell{}, std::move(fds));  // last, because the send may close the link
}

void RingTable::left(LinkId link) {
  const auto at = of_link_.find(link);
  if (at == of_link_.end()) return;
  const ProcessId process = at->second;
  of_link_.erase(at);
  if (spin_limit_ != nullptr) spin_limit_->left(process);
  const auto rings = std::move(processes_.at(process).rings);
  processes_.erase(process);
  for (const auto& [ring, index] : rings) end(ring, process);
}

void RingTable::open(LinkId caller, ProcessId executor) {
  const auto at = of_link_.find(caller);
  if (at != of_link_.end() && open(at->second, executor)) return;
  OpenRingReply none;
  none.peer = executor;
  none.calls = true;
  links_.send(caller, none);
}

void RingTable::open_for(ProcessId caller, ProcessId executor) { (void)open(caller, executor); }

bool RingTable::open(ProcessId caller, ProcessId executor) {
  const auto from = processes_.find(caller);
  const auto to = processes_.find(executor);
  if (from == processes_.end() || to == processes_.end() || from == to) return false;
  if (from->second.job != to->second.job && !to->second.is_actor) return false;
  for (const auto& [ring, index] : from->second.rings) {
    const Ring& row = rings_.at(ring);
    // a ring exists already
    if (row.caller == caller && row.executor == executor && !row.ending) return true;
  }
  auto memory = SharedMemory::create_file(2 * ring_memory_bytes, "mobula-ring");
  auto other_memory = memory ? copy_of(*memory) : Result<Fd>(memory.error());
  auto to_caller = from->second.doorbell.copy();
  auto to_executor = to->second.doorbell.copy();
  if (!other_memory || !to_caller || !to_executor) {
    if (!std::exchange(said_, true)) {
      log_warn(
          "no descriptors are left for rings between processes; calls without a ring go through "
          "sockets");
    }
    return false;
  }
  const auto callers_index = take_index(from->second);
  if (!callers_index) return false;
  const auto executors_index = take_index(to->second);
  if (!executors_index) {
    from->second.free_indices.insert(*callers_index);
    return false;
  }
  const std::uint64_t ring = ++last_;
  rings_[ring] = {caller, executor, false};
  from->second.rings[ring] = *callers_index;
  to->second.rings[ring] = *executors_index;
  const LinkId callers_link = from->second.link;
  const auto send = [&](LinkId link, OpenRingReply opened, Fd file, DoorbellFiles peer) {
    std::vector<Fd> fds;
    fds.push_back(std::move(file));
    fds.push_back(std::move(peer.page));
    fds.push_back(std::move(peer.event));
    links_.send(link, opened, std::move(fds));
  };
  send(to->second.link, {caller, false, *executors_index, *callers_index, ring},
       std::move(*other_memory), std::move(*to_caller));
  // A send may close the link of a process that does not read, and that event may close the link of
  // its peer.
  if (const auto opened = rings_.find(ring); opened == rings_.end() || opened->second.ending) {
    if (const auto alive = processes_.find(caller); alive != processes_.end())
      return_index(alive->second, ring);
    rings_.erase(ring);
    return false;
  }
  send(callers_link, {executor, true, *callers_index, *executors_index, ring}, std::move(*memory),
       std::move(*to_executor));
  return true;
}

std::optional<std::uint32_t> RingTable::take_index(Process& process) const {
  if (!process.free_indices.empty()) {
    return process.free_indices.extract(process.free_indices.begin()).value();
  }
  if (process.used >= max_rings_) return std::nullopt;
  return process.used++;
}

void RingTable::return_index(Process& process, std::uint64_t ring) {
  const auto at = process.rings.find(ring);
  if (at == process.rings.end()) return;
  process.free_indices.insert(at->second);
  process.rings.erase(at);
}

void RingTable::closed(LinkId link, std::uint64_t ring) {
  const auto at = of_link_.find(link);
  if (at == of_link_.end()) return;
  Process& process = processes_.at(at->second);
  if (!process.rings.contains(ring)) return;
  return_index(process, ring);
  end(ring, at->second);
}

// One side has closed the ring: notifies the other side once. The ring is erased after both have
// closed it.
void RingTable::end(std::uint64_t ring, ProcessId by) {
  const auto at = rings_.find(ring);
  if (at == rings_.end()) return;
  const ProcessId peer = at->second.caller == by ? at->second.executor : at->second.caller;
  const auto other = processes_.find(peer);
  if (other == processes_.end() || !other->second.rings.contains(ring)) {
    rings_.erase(at);
    return;
  }
  if (std::exchange(at->second.ending, true)) return;
  links_.send(other->second.link, RingEnded{ring});
}

}  // namespace mobula::internal::worker
