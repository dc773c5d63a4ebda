// Queue of pulls of objects and program files from other nodes: admits pulls, assigns chunks to
// sources, and reacts to failures. Requests for one key share a pull. A pull ends with exactly one
// `PullDone`.
// Thread: owner (pure; one core). Units: sizes in bytes.
// Errors: resource_exhausted above `max_waiting`; the last failure when all sources failed or the
// pull stalled for `stalled_timeout`.
// Not: bytes, memory, and connections; the owner carries out the commands.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/containers/table.h"
#include "protocol/messages/peer_control.h"
#include "worker/core/transfers/pull.h"

namespace mobula::internal::transfer {

// A pull reads from several sources at once, also from nodes that still pull the object and report
// their complete chunks. A failed read is repeated, at another source if one has the chunk. After
// `source_failures` consecutive failures, a source is given up.
class PullQueue {
 public:
  explicit PullQueue(PullOptions options = {}) : options_(options) {}

  // Starts or joins the pull of the requested key. Fails with resource_exhausted if too many
  // requests wait, and with invalid_argument without a source.
  Result<PullId> want(Time now, ObjectRequest request, std::vector<PullCommand>& out);
  // Withdraws one request. The last one ends the pull as cancelled, when no chunk is being written.
  void unwant(Time now, PullId pull, std::vector<PullCommand>& out);
  void cancel(Time now, PullId pull, std::vector<PullCommand>& out);  // with any count of readers
  // A call waits for the pull now.
  void hurry(PullId pull);
  // Adds a node that has the bytes or is pulling them.
  void add_source(Time now, PullId pull, NodeId node, std::vector<PullCommand>& out);

  // Replies to `BeginPull`. A pull that waits for memory gives its admission to the next one, and
  // counts again when it is placed.
  void placed(Time now, PullId pull, std::vector<PullCommand>& out);
  void waits_for_space(Time now, PullId pull, std::vector<PullCommand>& out);
  void refused(Time now, PullId pull, Failure why, std::vector<PullCommand>& out);

  // A reply of a node that is no longer a source changes nothing.
  void answered(Time now, NodeId from, const PullReply& ready, std::vector<PullCommand>& out);
  void more_there(Time now, NodeId from, const ChunksAvailable& news,
                  std::vector<PullCommand>& out);
  void fetched(Time now, ChunkId chunk, std::optional<Failure> failure,
               std::vector<PullCommand>& out);
  void completed(Time now, PullId pull, std::optional<Failure> failure,
                 std::vector<PullCommand>& out);
  // Removes the node from all sources.
  void node_dead(Time now, NodeId node, std::vector<PullCommand>& out);
  void tick(Time now, std::vector<PullCommand>& out);
  std::optional<Time> next_deadline() const;

  // ---- queries ----------------------------------------------------------------------------------
  std::size_t size() const { return pulls_.size(); }
  std::size_t running() const { return running_; }
  std::uint64_t chunk_bytes() const { return options_.chunk_bytes; }
  // Chunks that others may read; empty if the pull has no memory.
  std::optional<std::vector<std::uint32_t>> chunks_of(PullId pull) const;
  // Calls `visit(const PullProgress&)` for each pull that has not ended: admitted pulls first, then
  // the others, both in request order.
  template <class Visit>
  void each_under_way(Visit visit) const {
    for (const bool has_turn : {true, false}) {
      for (const auto& [id, pull] : pulls_) {
        if (pull.counted() == has_turn && pull.stage != Pull::Stage::ending) visit(pull.progress());
      }
    }
  }

 private:
  struct Flight {
    PullId pull = 0;
    NodeId node{};
    std::uint32_t number = 0;
    std::uint64_t size_bytes = 0;
    Time since;
    Time deadline;
    bool cut = false;
    std::optional<Failure> why{};  // reason of the abort
  };
  enum class Turn { first, argument, other };

  void admit(std::vector<PullCommand>& out);
  void enter(PullId id, std::vector<PullCommand>& out);
  // Advances a running pull: queries further sources, or ends it.
  void settle(Time now, PullId id, std::vector<PullCommand>& out);
  void request_sources(Time now, Pull& pull, PullId id, std::vector<PullCommand>& out);
  bool can_go_on(Time now, Pull& pull) const;
  // Assigns chunks up to the limits. Each pull gets a first chunk before any gets a second; then
  // pulls of arguments precede the others, each group in rotation.
  void assign(Time now, std::vector<PullCommand>& out);
  bool assign_one(Time now, PullId id, std::vector<PullCommand>& out);
  Source* best_source(Time now, Pull& pull, std::uint32_t& number) const;
  void cut(Flight& flight, ChunkId id, std::optional<Failure> why, std::vector<PullCommand>& out);
  void source_failed(Time now, Pull& pull, Source& source, Failure why, Time began,
                     std::vector<PullCommand>& out);
  void close(Pull& pull, Source& source, std::vector<PullCommand>& out);
  void release(Pull& pull, Source& source, std::vector<PullCommand>& out);
  void late(Time now, PullId id, std::vector<PullCommand>& out);
  void end(PullId id, std::optional<Failure> why, std::vector<PullCommand>& out);
  void done(PullId id, std::vector<PullCommand>& out);
  std::size_t under_way_from(NodeId node) const;

  PullOptions options_;
  Table<PullId, Pull> pulls_;
  std::map<PullKey, PullId> by_key_;  // without ending pulls
  std::set<PullId> waiting_arguments_, waiting_others_;
  std::set<PullId> active_;  // running, finishing, or ending
  std::map<RequestNumber, PullId> requests_;
  std::map<ChunkId, Flight> flights_;
  std::map<NodeId, std::size_t> under_way_;  // chunks in transit, by node
  std::size_t running_ = 0;                  // pulls that count against `max_pulls`
  std::uint64_t bytes_in_flight_ = 0;
  std::uint64_t admissions_ = 0;
  PullId last_served_ = 0;
  PullId last_pull_ = 0;
  RequestNumber last_request_ = 0;
  ChunkId last_chunk_ = 0;
};

}  // namespace mobula::internal::transfer
