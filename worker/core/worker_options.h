// Settings of the agent core, with defaults. Plain values; a recording contains them.
// Thread: any. Units: part of each name.
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "base/model/jobs/isolation.h"
#include "base/time.h"

namespace mobula::internal::worker {

struct WorkerOptions {
  std::uint64_t store_bytes = std::uint64_t{1} << 30;
  std::uint64_t first_slab_bytes = std::uint64_t{4} << 20;
  std::uint64_t max_slab_bytes = std::uint64_t{256} << 20;

  Duration register_backoff_initial = 200ms;  // first backoff, doubled up to register_backoff_max
  Duration register_backoff_max = 2s;
  Duration head_silence_timeout = 3s;  // time without a reply after which the head counts as away

  Duration start_timeout = 60s;  // from fork to ExecutorReady
  int start_attempts = 3;        // generations in a row that may end before they are ready
  Duration restart_backoff_initial =
      100ms;  // after the second crash in a row, doubled up to restart_backoff_max
  Duration restart_backoff_max = 5s;
  Duration end_timeout = 500ms;          // for an executor that ends without finishing its call
  Duration drain_timeout = 30s;          // timeout of Stop{drain}
  Duration exit_timeout = 5s;            // for exit handlers of an executor that exits as planned
  Duration store_results_timeout = 60s;  // for an executor that stores its results before it exits
  Duration farewell_timeout = 2s;        // for the head to acknowledge the exit of the agent

  std::size_t max_processes = 8192;      // attached at once; more are rejected
  std::size_t max_head_backlog = 65536;  // messages; see HeadSession
  std::size_t max_peer_backlog = 65536;  // messages; fetches beyond it fail
  std::size_t max_holds_per_process = 1'000'000;
  std::size_t max_offers = 256;  // pulls that read here at once; more must retry
  std::uint64_t bulk_chunk_bytes = std::uint64_t{2} << 20;        // the same on all nodes
  std::uint64_t bulk_bytes_in_flight = std::uint64_t{256} << 20;  // requested and not received
  std::size_t bulk_chunks_per_source = 8;                         // in flight from one node
  Duration attach_timeout = 10s;                                  // for a connection to attach

  // Time until an unclaimed object counts as lost. Also the time for which the holds of a process
  // that died suddenly remain.
  Duration unclaimed_delay = 1s;
  Duration orphan_delay = 30s;          // keeps bytes of a dead home for unknown holders
  Duration locate_timeout = 10s;        // for the head to return replica locations
  Duration peer_unknown_timeout = 30s;  // a node that the head never names counts as dead
  Duration peer_silence_timeout = 10s;  // without an acknowledgement: reported to the head
  Duration capacity_timeout = 2s;       // wait of a writer for memory
  Duration copies_delay = 10ms;         // batching of ObjectCopies

  // Unused memory of the store that stays allocated. Memory beyond it is freed after one to two
  // `idle_store_delay` without use.
  std::uint64_t idle_store_bytes = std::uint64_t{64} << 20;
  Duration idle_store_delay = 4s;

  // Memory pressure of the node (memory_guard.h).
  std::int64_t memory_threshold_permille = 950;              // beyond it, executors are terminated
  std::int64_t memory_last_resort_permille = 980;            // beyond it, other executors, too
  std::int64_t memory_least_bytes = std::int64_t{16} << 20;  // or 1 %: least use worth a kill
  Duration memory_end_timeout = 5s;                          // for a terminated executor to exit
  Duration memory_return_delay = 500ms;  // after that exit, for its memory to return

  // Executors that exceed their share of a GPU (gpu_guard.h).
  Reacts gpu_reacts = Reacts::error;
  std::int64_t gpu_memory_slack_bytes = std::int64_t{32} << 20;  // rounding and own use of drivers

  bool spill = true;             // to disk, under memory pressure
  int spill_above_percent = 80;  // share of the capacity in use by objects
  std::uint64_t spill_file_bytes = std::uint64_t{100} << 20;  // a larger object has its own file
  std::uint64_t spill_file_objects = 2000;
  std::size_t max_restores = 16;         // at once; more wait
  Duration spill_timeout = 60s;          // extended wait for memory during a disk write
  Duration spill_retry_backoff = 10s;    // after a failed write
  Duration return_timeout = 200ms;       // for a process to return a location on request
  Duration read_capacity_timeout = 30s;  // wait of a reader for memory
  Duration memory_return_timeout = 10s;  // for memory that processes must return

  MOBULA_FIELDS(store_bytes, first_slab_bytes, max_slab_bytes, register_backoff_initial,
                register_backoff_max, head_silence_timeout, start_timeout, start_attempts,
                restart_backoff_initial, restart_backoff_max, end_timeout, drain_timeout,
                store_results_timeout, farewell_timeout, max_processes, max_head_backlog,
                max_peer_backlog, max_holds_per_process, max_offers, bulk_chunk_bytes,
                bulk_bytes_in_flight, bulk_chunks_per_source, attach_timeout, unclaimed_delay,
                orphan_delay, locate_timeout, peer_unknown_timeout, capacity_timeout, copies_delay,
                idle_store_bytes, idle_store_delay, memory_threshold_permille,
                memory_last_resort_permille, memory_least_bytes, memory_end_timeout,
                memory_return_delay, gpu_reacts, gpu_memory_slack_bytes, spill, spill_above_percent,
                spill_file_bytes, spill_file_objects, max_restores, spill_timeout,
                spill_retry_backoff, return_timeout, read_capacity_timeout, memory_return_timeout,
                peer_silence_timeout, exit_timeout);
  friend bool operator==(const WorkerOptions&, const WorkerOptions&) = default;
};

}  // namespace mobula::internal::worker
