// The faults of a history: their start, effect, and end.
#include <algorithm>

#include "sim/agent_role.h"
#include "sim/head_role.h"
#include "sim/process_role.h"

namespace mobula::internal::sim {
namespace {

constexpr Duration undrain_timeout = 3s;

}  // namespace

bool World::masked_item(int item) const { return options_.mask.items.contains(item); }

void World::schedule_faults() {
  for (std::size_t i = 0; i < plan_.faults.size(); ++i) {
    if (options_.mask.faults.contains(static_cast<int>(i))) continue;
    const Fault& fault = plan_.faults[i];
    kernel_.at(fault.at, [this, &fault] {
      checkers_.fault(fault.kind);
      reports_.fault();
      trace_.fold(now(), 0, to_string(fault.kind), fault.target);
      trace_.line(now(), "FAULT", [&] { return std::string(to_string(fault.kind)); });
      begin(fault);
    });
    kernel_.at(fault.at + fault.span, [this, &fault] { finish(fault); });
  }
}

void World::begin(const Fault& fault) {
  using enum FaultKind;
  Node& node = nodes_.at(fault.target % nodes_.size());
  Process* driver = drivers_.at(fault.target % drivers_.size());
  switch (fault.kind) {
    case head_crash:
      if (head_ != nullptr) head_->crash();
      break;
    case head_pause:
      if (head_ != nullptr) head_->pause(fault.span);
      break;
    case agent_crash:
      if (node.agent != nullptr) node.agent->crash("crash");
      break;
    case head_and_agent_crash:
      if (head_ != nullptr) head_->crash();
      if (node.agent != nullptr) node.agent->crash("crash");
      break;
    case home_crash: {
      Node& home = nodes_.at(static_cast<std::size_t>(driver->host() - 1));
      if (home.agent != nullptr) home.agent->crash("crash");
      break;
    }
    case node_away: {
      // Keeps the nodes of drivers, so that their work continues.
      std::vector<Node*> others;
      for (auto& each : nodes_) {
        const auto& hosts = plan_.driver_nodes;
        if (std::ranges::find(hosts, each.index - 1) == hosts.end()) others.push_back(&each);
      }
      if (others.empty()) break;
      Node& gone = *others.at(fault.target % others.size());
      gone.away_until = now() + fault.span;
      if (gone.agent != nullptr) gone.agent->crash("away");
      break;
    }
    case agent_pause:
      if (node.agent != nullptr) node.agent->pause(fault.span);
      break;
    case executor_crash: crash_executor(fault, Duration(0)); break;
    case executor_pause: crash_executor(fault, fault.span); break;
    case driver_pause: driver->pause(fault.span); break;
    case driver_crash: {
      if (drivers_.size() < 2) break;
      EndCause cause{EndKind::signalled, 0, 9, driver->pid(), "killed", {}};
      driver->die(cause);
      break;
    }
    case node_drained:
      if (head_ != nullptr && node.agent != nullptr) {
        drains_[&fault] = node.agent->address().incarnation;
        head_->drain(node.id, node.agent->address().incarnation);
      }
      break;
    case head_link_break:
      if (head_ != nullptr) head_->break_link(fault.target);
      break;
    case head_link_cut:
    case peer_cut: cut(fault, true); break;
    case peer_lost: lose_peer(fault, true); break;
    case spill_corrupts:
      for (auto& [file, contents] : node.spilled) {
        if (spill_.chance(500)) contents.clear();
      }
      break;
    case bulk_breaks:
      if (node.agent != nullptr) node.agent->break_bulk();
      break;
    case starved: starve(fault); break;
    case stream_break: driver->break_stream(fault.target / 7); break;
    default: apply_weather(fault.kind, 1); break;
  }
}

void World::finish(const Fault& fault) {
  using enum FaultKind;
  switch (fault.kind) {
    case head_link_cut:
    case peer_cut: cut(fault, false); break;
    case peer_lost: lose_peer(fault, false); break;
    case slow_network:
    case repeats:
    case disk_slow:
    case disk_fails:
    case fork_fails:
    case slab_fails:
    case bulk_fails:
    case bulk_slow:
    case bulk_corrupts:
    case news_lost:
    case spill_slow:
    case spill_fails: apply_weather(fault.kind, -1); break;
    case node_drained: {
      const bool back = (fault.target / 1024) % 2 == 0;
      if (!back) return end_drained(fault);
      const Node& node = nodes_.at(fault.target % nodes_.size());
      const bool same =
          node.agent != nullptr && node.agent->address().incarnation == drains_[&fault];
      if (same && head_ != nullptr) head_->undrain(node.id, drains_[&fault]);
      // The order may be lost with the head, or rejected while the head knows no node yet.
      kernel_.after(undrain_timeout, [this, &fault] { end_drained(fault); });
      break;
    }
    default: break;
  }
}

// A node that was not undrained gets work again with its next incarnation.
void World::end_drained(const Fault& fault) {
  const Node& node = nodes_.at(fault.target % nodes_.size());
  const ProcessId incarnation = drains_[&fault];
  if (node.agent == nullptr || node.agent->address().incarnation != incarnation) return;
  if (!checkers_.taken_back(incarnation)) node.agent->crash("ends after its drain");
}

void World::apply_weather(FaultKind kind, int change) {
  using enum FaultKind;
  switch (kind) {
    case slow_network: weather_.slow += change; break;
    case repeats: weather_.repeats += change; break;
    case disk_slow: weather_.disk_slow += change; break;
    case disk_fails: weather_.disk_fails += change; break;
    case fork_fails: weather_.fork_fails += change; break;
    case slab_fails: weather_.slab_fails += change; break;
    case bulk_fails: weather_.bulk_fails += change; break;
    case bulk_slow: weather_.bulk_slow += change; break;
    case bulk_corrupts: weather_.bulk_corrupts += change; break;
    case news_lost: weather_.news_lost += change; break;
    case spill_slow: weather_.spill_slow += change; break;
    case spill_fails: weather_.spill_fails += change; break;
    default: break;
  }
}

void World::crash_executor(const Fault& fault, Duration pause) {
  std::vector<Process*> executors;
  for (auto& node : nodes_)
    executors.insert(executors.end(), node.executors.begin(), node.executors.end());
  if (executors.empty()) return;
  Process* chosen = executors.at(fault.target % executors.size());
  if (pause > Duration(0)) return chosen->pause(pause);
  EndCause cause{EndKind::signalled, 0, 9, chosen->pid(), "killed", {}};
  chosen->die(cause);
}

// One process, or all processes of a machine: one time in three.
void World::starve(const Fault& fault) {
  std::vector<Role*> running;
  if (head_ != nullptr) running.push_back(head_);
  for (const Node& node : nodes_) {
    if (node.agent != nullptr) running.push_back(node.agent);
  }
  for (Process* process : all_processes_) {
    if (process->alive()) running.push_back(process);
  }
  if (running.empty()) return;
  const int host = running.at(fault.target % running.size())->host();
  const auto interval = Duration(20ms) + Duration(1ms) * ((fault.target / 4096) % 430);
  const std::size_t batch =
      (fault.target / (1 << 20)) % 2 == 0 ? 1 + (fault.target >> 30) % 8 : 1000;
  if ((fault.target / 1024) % 3 != 0)
    return running.at(fault.target % running.size())->starve(fault.span, interval, batch);
  for (Role* each : running) {
    if (each->host() == host) each->starve(fault.span, interval, batch);
  }
}

// True if each request fits a node of another host.
bool World::all_work_fits_without(int host) const {
  const auto node = static_cast<std::size_t>(host) - 1;
  return std::ranges::all_of(plan_.plans, [&](const auto& plan) {
    const Request request = request_of(plan.shape);
    for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
      const auto fits = [&](const auto& amount) {
        return amount.second <= plan_.nodes[i].shape.total(amount.first);
      };
      if (i != node && std::ranges::all_of(request.resources.amounts(), fits)) return true;
    }
    return false;
  });
}

// Two machines lose contact in both directions: connections of processes break, and new ones do not
// open. All work ends although the contact does not return, unless it fits the lost machine alone.
// A driver on either machine has lost the other one. Work of other drivers may be on both.
// A release of a ref waits for the contact, and with it the end of the owner's job.
void World::lose_peer(const Fault& fault, bool on) {
  const int a = drivers_.at(fault.target % drivers_.size())->host();
  const int b = static_cast<int>((fault.target / 8) % nodes_.size()) + 1;
  if (a == b) return;
  if (!on) {
    for (const Process* driver : drivers_) {
      const bool ends = (driver->host() == a || all_work_fits_without(a)) &&
                        (driver->host() == b || all_work_fits_without(b));
      if (driver->has_work() && ends)
        violation("links", "work waits for a cut link: " + unfinished_work());
    }
  }
  for (const auto& link : {std::pair{a, b}, std::pair{b, a}}) {
    if (on) {
      blocked_.insert(link);
      lost_.insert(link);
    } else {
      blocked_.erase(link);
      lost_.erase(link);
    }
  }
  if (!on) return;
  for (Process* process : all_processes_) {
    if (process->alive()) process->break_lost_streams();
  }
}

// A cut is one-way two times in three. Half of the time, the connection breaks when the cut is
// over.
void World::cut(const Fault& fault, bool on) {
  const int a = static_cast<int>(fault.target % nodes_.size()) + 1;
  int b = 0;
  if (fault.kind == FaultKind::peer_cut) {
    b = static_cast<int>((fault.target / 8) % nodes_.size()) + 1;
    if (a == b) return;
  }
  const auto ways = (fault.target / 64) % 3;
  const auto set = [&](int from, int to) {
    if (on) {
      blocked_.insert({from, to});
    } else {
      blocked_.erase({from, to});
    }
  };
  if (ways != 0) set(a, b);
  if (ways != 1) set(b, a);
  if (on) return;
  if (b == 0) {
    Agent* agent = nodes_.at(static_cast<std::size_t>(a) - 1).agent;
    if (agent != nullptr && (fault.target / 256) % 2 == 0) agent->reset_head_link();
    return;
  }
  for (const auto& [incarnation, agent] : agents_) {
    for (const auto& [other, peer] : agents_) {
      if (agent->alive() && peer->alive() && agent->host() == a && peer->host() == b) {
        agent->peer_link(other, true);
      }
    }
  }
}

}  // namespace mobula::internal::sim
