// The local connections of the agent and the processes behind them: drivers that attached,
// executors that were started. Part of WorkerCore; decides nothing about slots or objects.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/deadline_heap.h"
#include "base/table.h"
#include "worker/core/outbox.h"
#include "worker/core/worker_options.h"

namespace mobula::internal::worker {

struct ProcessRow {
  LinkId link = 0;
  std::string user;
  std::int64_t pid = 0;
  ProcessId process{};  // empty: has not said who it is
  Principal principal{};
  SlotId slot{};  // executors
  std::uint32_t generation = 0;
  std::optional<Time> attach_by{};
  std::optional<Time> armed{};  // see DeadlineHeap
  bool restates = false;     // something it said to the head was not kept
  std::set<SlabId> slabs{};  // whose fds it was given
};

class Processes {
 public:
  Processes(Outbox& outbox, const WorkerOptions& options) : outbox_(outbox), options_(options) {}

  void connected(LinkId link, std::string user, std::int64_t pid);
  // The row of a link that is now this process.
  ProcessRow& attach(LinkId link, ProcessId process, Principal principal, std::int64_t pid);
  void close(LinkId link);
  // Forgets the link; its row as it was, if there was one.
  std::optional<ProcessRow> lost(LinkId link);

  ProcessRow* by_link(LinkId link) { return links_.find(link); }
  ProcessRow* find(ProcessId process);
  bool attached(ProcessId process) const { return attached_.contains(process); }
  bool has_driver(JobId job) const;
  bool full() const { return links_.size() >= options_.max_processes; }

  // Dropped if the process is not attached (any more).
  void send(ProcessId process, AgentToProcess message);
  // With the slab's fd, if this process has not had it: `give(new_slab)` makes the message.
  template <class Make>
  void send_with_slab(ProcessId process, SlabId slab, Make&& make) {
    ProcessRow* row = find(process);
    if (row == nullptr) return;
    const bool given = row->slabs.insert(slab).second;
    outbox_.emit(SendProcess{row->link, make(given), given ? slab : SlabId{}});
  }
  void broadcast(const AgentToProcess& message);
  // Tells every process that has the slab, and forgets that it has.
  void retire_slab(SlabId slab);
  // Its fd never came to be.
  void forget_slab(SlabId slab);

  // A process has ended. Kept for a while, and as long as `head_hears` is false: a head that starts
  // may be the only one left to tell others of it.
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
  static constexpr std::size_t max_remembered = 8192;  // the oldest go first

  Outbox& outbox_;
  const WorkerOptions& options_;
  std::deque<Ended> ended_;
  Table<LinkId, ProcessRow> links_;
  DeadlineHeap<LinkId> deadlines_;
  Table<ProcessId, LinkId> attached_;
};

// How messages name a slab.
inline std::uint64_t slab_number(SlabId slab) { return slab.bits().low; }

}  // namespace mobula::internal::worker
