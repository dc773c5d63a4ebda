#include "worker/core/processes.h"

#include <algorithm>
#include <utility>

namespace mobula::internal::worker {

void Processes::connected(LinkId link, std::string user, std::int64_t pid) {
  if (full()) {
    outbox_.emit(SendToProcess{link,
                               AttachRefused{ErrorCode::resource_exhausted,
                                             "too many processes are attached to this agent"},
                               SlabId{}});
    outbox_.emit(CloseProcess{link});
    return;
  }
  ProcessRow row{.link = link, .user = std::move(user), .pid = pid};
  row.attach_by = outbox_.now() + options_.attach_timeout;
  ProcessRow& kept = *links_.insert(link, std::move(row)).first;
  deadlines_.watch(link, kept.attach_by, kept.armed);
}

ProcessRow& Processes::attach(LinkId link, ProcessId process, Principal principal,
                              std::int64_t pid) {
  ProcessRow& row = links_[link];
  row.link = link;
  row.process = process;
  row.principal = std::move(principal);
  row.pid = pid;
  row.attach_by.reset();
  attached_.insert(process, link);
  std::erase_if(ended_, [&](const Ended& each) { return each.what.process == process; });
  return row;
}

void Processes::close(LinkId link) { outbox_.emit(CloseProcess{link}); }

std::optional<ProcessRow> Processes::lost(LinkId link) {
  ProcessRow* row = links_.find(link);
  if (row == nullptr) return std::nullopt;
  ProcessRow taken = std::move(*row);
  links_.erase(link);
  if (!taken.process.empty()) attached_.erase(taken.process);
  return taken;
}

ProcessRow* Processes::find(ProcessId process) {
  const LinkId* link = attached_.find(process);
  return link == nullptr ? nullptr : links_.find(*link);
}

bool Processes::has_driver(JobId job) const {
  for (const auto& [link, row] : links_) {
    const bool driver = row.principal.role == Role::driver && !row.process.empty();
    if (driver && row.principal.job == job) return true;
  }
  return false;
}

void Processes::send(ProcessId process, AgentToProcess message) {
  if (const ProcessRow* row = find(process)) {
    outbox_.emit(SendToProcess{row->link, std::move(message), SlabId{}});
  }
}

void Processes::broadcast(const AgentToProcess& message) {
  for (const auto& [process, link] : attached_) {
    outbox_.emit(SendToProcess{link, message, SlabId{}});
  }
}

void Processes::retire_slab(SlabId slab) {
  for (auto& [link, row] : links_) {
    if (row.slabs.erase(slab) == 0) continue;
    outbox_.emit(SendToProcess{link, UnmapSlabRequest{slab_number(slab)}, SlabId{}});
  }
}

void Processes::forget_slab(SlabId slab) {
  for (auto& [link, row] : links_) row.slabs.erase(slab);
}

void Processes::remember(ProcessEnded ended, bool head_hears) {
  const Time old = outbox_.now() - remembered_for;
  while (!ended_.empty() && head_hears && ended_.front().at < old) ended_.pop_front();
  ended_.push_back({outbox_.now(), std::move(ended)});
  if (ended_.size() > max_remembered) ended_.pop_front();
}

std::vector<ProcessEnded> Processes::ended_lately() const {
  std::vector<ProcessEnded> out;
  for (const Ended& each : ended_) out.push_back(each.what);
  return out;
}

void Processes::tick() {
  std::vector<LinkId> due;
  deadlines_.take_due(
      outbox_.now(), [this](LinkId link) { return links_.find(link); }, due);
  std::sort(due.begin(), due.end());
  for (const LinkId link : due) {
    if (std::exchange(links_.at(link).attach_by, std::nullopt)) close(link);
  }
}

std::size_t Processes::settle() {
  std::size_t visited = 0;
  deadlines_.settle(
      [&](LinkId link) {
        ++visited;
        return links_.find(link);
      },
      [](const ProcessRow& row) { return row.attach_by; });
  return visited;
}

bool Processes::deadlines_are_exact() const {
  std::optional<Time> first;
  for (const auto& [link, row] : links_) take_earlier(first, row.attach_by);
  return first == next_deadline();
}

std::vector<ProcessFact> Processes::facts() const {
  std::vector<ProcessFact> out;
  for (const auto& [process, link] : attached_) {
    const ProcessRow& row = links_.at(link);
    out.push_back({process, row.principal, row.pid});
  }
  return out;
}

}  // namespace mobula::internal::worker
