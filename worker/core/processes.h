// Local connections of the agent and the processes behind them: attached drivers and started
// executors.
// Thread: owner (WorkerCore). Not: decisions about slots or objects.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/containers/deadline_heap.h"
#include "base/containers/table.h"
#include "worker/core/outbox.h"
#include "worker/core/worker_options.h"

namespace mobula::internal::worker {

struct ProcessRow {
  LinkId link = 0;
  std::string user;
  std::int64_t pid = 0;
  ProcessId process{};  // empty: not attached yet
  Principal principal{};
  SlotId slot{};  // executors only
  std::uint32_t generation = 0;
  std::optional<Time> attach_by{};
  std::optional<Time> armed{};  // see DeadlineHeap
  bool restates = false;        // a message to the head was dropped; the process must restate
  std::set<SlabId> slabs{};     // slabs whose descriptors it received
};

class Processes {
 public:
  Processes(Outbox& outbox, const WorkerOptions& options) : outbox_(outbox), options_(options) {}

  void connected(LinkId link, std::string user, std::int64_t pid);
  // Registers the process of a link, and returns its row.
  ProcessRow& attach(LinkId link, ProcessId process, Principal principal, std::int64_t pid);
  void close(LinkId link);
  // Erases the link and returns its last row, if one existed.
  std::optional<ProcessRow> lost(LinkId link);

  ProcessRow* by_link(LinkId link) { return links_.find(link); }
  ProcessRow* find(ProcessId process);
  bool attached(ProcessId process) const { return attached_.contains(process); }
  bool has_driver(JobId job) const;
  bool full() const { return links_.size() >= options_.max_processes; }

  // Drops the message if the process is not attached.
  void send(ProcessId process, AgentToProcess message);
  // Attaches the descriptor of the slab if the process does not have it; `make(new_slab)` returns
  // the message.
  template <class Make>
  void send_with_slab(ProcessId process, SlabId slab, Make&& make) {
    ProcessRow* row = find(process);
    if (row == nullptr) return;
    const bool given = row->slabs.insert(slab).second;
    outbox_.emit(SendToProcess{row->link, make(given), given ? slab : SlabId{}});
  }
  void broadcast(const AgentToProcess& message);
  // Notifies every process that has the slab, and erases it from their rows.
  void retire_slab(SlabId slab);
  // Creation of the slab failed: erases it from all rows.
  void forget_slab(SlabId slab);

  // Records the end of a process for 30 s, and longer while `head_hears` is false: a restarted head
  // may be the only one that can report it to others.
  void remember(ProcessEnded ended, bool head_hears);
  std::vector<ProcessEnded> ended_lately() const;

  void tick();
  std::optional<Time> next_deadline() const { return deadlines_.earliest(); }
  // As in Peers.
  std::size_t settle();
  bool deadlines_are_exact() const;
  std::vector<ProcessFact> facts() const;
  const Table<LinkId, ProcessRow>& rows() const { return links_; }
  Table<LinkId, ProcessRow>& rows() { return links_; }
  std::size_t attached_count() const { return attached_.size(); }

 private:
  struct Ended {
    Time at;
    ProcessEnded what;
  };
  static constexpr Duration remembered_for = 30s;
  static constexpr std::size_t max_remembered = 8192;  // the oldest are erased first

  Outbox& outbox_;
  const WorkerOptions& options_;
  std::deque<Ended> ended_;
  Table<LinkId, ProcessRow> links_;
  DeadlineHeap<LinkId> deadlines_;
  Table<ProcessId, LinkId> attached_;
};

// Number of a slab in messages.
inline std::uint64_t slab_number(SlabId slab) { return slab.bits().low; }

}  // namespace mobula::internal::worker
