// Settings of the agent's core, with defaults. Plain values; a recording keeps them beside its
// inputs.
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "base/time.h"
#include "model/isolation.h"

namespace mobula::internal::worker {

struct WorkerOptions {
  std::uint64_t store_bytes = std::uint64_t{1} << 30;
  std::uint64_t first_slab_bytes = std::uint64_t{4} << 20;
  std::uint64_t max_slab_bytes = std::uint64_t{256} << 20;

  Duration register_after = 200ms;  // between attempts, doubled up to
  Duration register_cap = 2s;
  Duration head_silent_after = 3s;  // unanswered for so long: the head is away

  Duration start_within = 60s;     // from fork to ExecutorReady
  int start_attempts = 3;          // generations in a row that may die before they are ready
  Duration restart_after = 100ms;  // after the second crash in a row, doubled up to
  Duration restart_cap = 5s;
  Duration end_within = 500ms;    // for an executor that is to end without finishing its call
  Duration drain_within = 30s;    // at Stop{drain}
  Duration store_results_cap = 60s;  // for an executor that ends to store the results it holds
  Duration farewell_within = 2s;  // for the head to hear of the end

  std::size_t max_processes = 8192;      // attached at once; more are refused
  std::size_t max_head_backlog = 65536;  // messages; see HeadSession
  std::size_t max_peer_backlog = 65536;  // messages; fetches beyond it fail
  std::size_t max_holds_per_process = 1'000'000;
  std::size_t max_offers = 256;  // pulls that read here at once; more are told to wait
  std::uint64_t bulk_chunk_bytes = std::uint64_t{2} << 20;       // the same on all nodes
  std::uint64_t bulk_bytes_in_flight = std::uint64_t{256} << 20;  // asked for and not there yet
  std::size_t bulk_chunks_per_source = 8;                         // of those from one node
  Duration attach_within = 10s;  // for a connection to say who it is

  // Until an object nobody owned up to counts as lost; as long stays what a process that died
  // suddenly may have passed on.
  Duration unclaimed_after = 1s;
  Duration orphan_after = 30s;        // bytes kept for unknown holders after their home has died
  Duration locate_within = 10s;       // for the head to say who has copies
  Duration peer_unknown_after = 30s;  // a node the head never mentions counts as dead
  Duration peer_silent_after = 10s;    // without an acknowledgement of the peer: reported to the head
  Duration room_within = 2s;          // for a process to give back an empty slab
  Duration copies_after = 10ms;       // batching of ObjectCopies

  // Of the store's memory without objects, what stays for the next ones; the rest is given back when
  // nobody has used it for once to twice so long.
  std::uint64_t idle_store_bytes = std::uint64_t{64} << 20;
  Duration idle_store_after = 4s;

  // When the node is short of memory (memory_guard.h).
  std::int64_t memory_threshold_permille = 950;    // of the limit: beyond it executors are ended
  std::int64_t memory_last_resort_permille = 980;  // beyond it also those whose work is lost
  std::int64_t memory_least_bytes = std::int64_t{16} << 20;  // less is not worth an end, nor 1 %
  Duration memory_end_within = 5s;  // for one that was ended to be gone before the next is
  Duration memory_pause = 500ms;    // from then, for its memory to come back

  // When an executor has more of a GPU than its share (gpu_guard.h).
  Reacts gpu_reacts = Reacts::error;
  std::int64_t gpu_memory_slack_bytes = std::int64_t{32} << 20;  // drivers round up, and keep some themselves

  bool spill = true;                // to disk, when memory is short
  int spill_above_percent = 80;     // of the store's capacity in use by objects
  std::uint64_t spill_file_bytes = std::uint64_t{100} << 20;  // a larger object has its own file
  std::uint64_t spill_file_objects = 2000;
  std::size_t max_restores = 16;    // at once; more wait
  Duration spill_within = 60s;      // who waits for room waits for a disk so long
  Duration spill_again_after = 10s; // when the disk would not take any more
  Duration return_within = 200ms;   // for a process to return a place that it was asked for
  Duration read_room_within = 30s;  // for room for what somebody wants to read
  Duration memory_return_timeout = 10s;  // wait of a writer after processes were asked to return memory

  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("store_bytes", &WorkerOptions::store_bytes),
                 field("first_slab_bytes", &WorkerOptions::first_slab_bytes),
                 field("max_slab_bytes", &WorkerOptions::max_slab_bytes),
                 field("register_after", &WorkerOptions::register_after),
                 field("register_cap", &WorkerOptions::register_cap),
                 field("head_silent_after", &WorkerOptions::head_silent_after),
                 field("start_within", &WorkerOptions::start_within),
                 field("start_attempts", &WorkerOptions::start_attempts),
                 field("restart_after", &WorkerOptions::restart_after),
                 field("restart_cap", &WorkerOptions::restart_cap),
                 field("end_within", &WorkerOptions::end_within),
                 field("drain_within", &WorkerOptions::drain_within),
                 field("store_results_cap", &WorkerOptions::store_results_cap),
                 field("farewell_within", &WorkerOptions::farewell_within),
                 field("max_processes", &WorkerOptions::max_processes),
                 field("max_head_backlog", &WorkerOptions::max_head_backlog),
                 field("max_peer_backlog", &WorkerOptions::max_peer_backlog),
                 field("max_holds_per_process", &WorkerOptions::max_holds_per_process),
                 field("max_offers", &WorkerOptions::max_offers),
                 field("bulk_chunk_bytes", &WorkerOptions::bulk_chunk_bytes),
                 field("bulk_bytes_in_flight", &WorkerOptions::bulk_bytes_in_flight),
                 field("bulk_chunks_per_source", &WorkerOptions::bulk_chunks_per_source),
                 field("attach_within", &WorkerOptions::attach_within),
                 field("unclaimed_after", &WorkerOptions::unclaimed_after),
                 field("orphan_after", &WorkerOptions::orphan_after),
                 field("locate_within", &WorkerOptions::locate_within),
                 field("peer_unknown_after", &WorkerOptions::peer_unknown_after),
                 field("room_within", &WorkerOptions::room_within),
                 field("copies_after", &WorkerOptions::copies_after),
                 field("idle_store_bytes", &WorkerOptions::idle_store_bytes),
                 field("idle_store_after", &WorkerOptions::idle_store_after),
                 field("memory_threshold_permille", &WorkerOptions::memory_threshold_permille),
                 field("memory_last_resort_permille", &WorkerOptions::memory_last_resort_permille),
                 field("memory_least_bytes", &WorkerOptions::memory_least_bytes),
                 field("memory_end_within", &WorkerOptions::memory_end_within),
                 field("memory_pause", &WorkerOptions::memory_pause),
                 field("gpu_reacts", &WorkerOptions::gpu_reacts),
                 field("gpu_memory_slack_bytes", &WorkerOptions::gpu_memory_slack_bytes),
                 field("spill", &WorkerOptions::spill),
                 field("spill_above_percent", &WorkerOptions::spill_above_percent),
                 field("spill_file_bytes", &WorkerOptions::spill_file_bytes),
                 field("spill_file_objects", &WorkerOptions::spill_file_objects),
                 field("max_restores", &WorkerOptions::max_restores),
                 field("spill_within", &WorkerOptions::spill_within),
                 field("spill_again_after", &WorkerOptions::spill_again_after),
                 field("return_within", &WorkerOptions::return_within),
                 field("read_room_within", &WorkerOptions::read_room_within),
                 field("memory_return_timeout", &WorkerOptions::memory_return_timeout),
                 field("peer_silent_after", &WorkerOptions::peer_silent_after));
  }
  friend bool operator==(const WorkerOptions&, const WorkerOptions&) = default;
};

}  // namespace mobula::internal::worker
