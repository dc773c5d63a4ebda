// Brings objects and program files from other nodes: which pulls run, which chunk is read from which
// node, what happens when one fails. Pure; owned by one core; not thread-safe. It knows ids and
// sizes; bytes, places and connections are its owner's.
//
// Several wishes for one key share one pull. At most `max_pulls` have a place or look for one; the
// others wait, arguments of calls before the rest, up to `max_waiting`, and beyond that a wish is
// refused. Of what runs, at most `max_bytes` are asked for and not there yet, and from one node at
// most `chunks_per_source`: each pull has one chunk under way before any has a second, then
// arguments come first, then all in turn.
//
// A pull reads from several nodes at once. One that is still fetching the object itself tells which
// chunks it has. What breaks costs the chunks that were under way, which are asked for again, from
// another node if one has them; a node that fails `source_failures` times in a row is given up. A
// pull ends with exactly one Done: with the bytes, or with the failure of the last node when all
// were given up, or when for `stalled_within` nobody had what is missing.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/table.h"
#include "protocol/peer_control.h"
#include "transfer/core/pull.h"

namespace mobula::internal::transfer {

class PullQueue {
 public:
  explicit PullQueue(PullOptions options = {}) : options_(options) {}

  // Begins, or joins, the pull of the wish's key. Fails with resource_exhausted if too many wait,
  // invalid_argument without a source.
  Result<PullId> want(Time now, PullWish wish, std::vector<PullCommand>& out);
  // One wish less. The last one ends the pull as cancelled, when nobody writes any more.
  void unwant(Time now, PullId pull, std::vector<PullCommand>& out);
  // A call waits for it now.
  void hurry(PullId pull);
  // This node has it too, or is getting it.
  void add_source(Time now, PullId pull, NodeId node, std::vector<PullCommand>& out);

  // Answers to BeginPull. One that waits for room leaves its turn to others, and has it again when
  // it is placed.
  void placed(Time now, PullId pull, std::vector<PullCommand>& out);
  void waits_for_room(Time now, PullId pull, std::vector<PullCommand>& out);
  void refused(Time now, PullId pull, Failure why, std::vector<PullCommand>& out);

  // Answers of nodes that are not asked any more change nothing.
  void answered(Time now, NodeId from, const PullReady& ready, std::vector<PullCommand>& out);
  void more_there(Time now, NodeId from, const ChunksThere& news, std::vector<PullCommand>& out);
  void fetched(Time now, ChunkId chunk, std::optional<Failure> failure,
               std::vector<PullCommand>& out);
  void completed(Time now, PullId pull, std::optional<Failure> failure,
                 std::vector<PullCommand>& out);
  // It is not read from any more.
  void node_dead(Time now, NodeId node, std::vector<PullCommand>& out);
  void tick(Time now, std::vector<PullCommand>& out);
  std::optional<Time> next_deadline() const;

  // ---- views -----------------------------------------------------------------------------------
  std::size_t size() const { return pulls_.size(); }
  std::size_t running() const { return running_; }
  std::uint64_t bytes_in_flight() const { return bytes_in_flight_; }
  std::uint64_t chunk_bytes() const { return options_.chunk_bytes; }
  // Nothing if it has no place. Others may read these.
  std::optional<std::vector<std::uint32_t>> chunks_of(PullId pull) const;
  // Of those that are not over `visit(const PullProgress&)`: those that have their turn, then the others, each in the
  // order in which they were wanted.
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
    std::optional<Failure> why{};  // it was cut for
  };
  enum class Turn { first, argument, other };

  void admit(std::vector<PullCommand>& out);
  void enter(PullId id, std::vector<PullCommand>& out);
  // What follows for a pull that runs: nodes to ask, its end.
  void settle(Time now, PullId id, std::vector<PullCommand>& out);
  void ask_sources(Time now, Pull& pull, PullId id, std::vector<PullCommand>& out);
  bool can_go_on(Time now, Pull& pull) const;
  // Gives out chunks as far as the limits allow.
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
  std::map<PullKey, PullId> by_key_;  // but for those that end
  std::set<PullId> waiting_arguments_, waiting_others_;
  std::set<PullId> active_;  // running, finishing or ending
  std::map<AskId, PullId> asks_;
  std::map<ChunkId, Flight> flights_;
  std::map<NodeId, std::size_t> under_way_;  // chunks
  std::size_t running_ = 0;                  // pulls that count
  std::uint64_t bytes_in_flight_ = 0;
  std::uint64_t admissions_ = 0;
  PullId last_served_ = 0;
  PullId last_pull_ = 0;
  AskId last_ask_ = 0;
  ChunkId last_chunk_ = 0;
};

}  // namespace mobula::internal::transfer
