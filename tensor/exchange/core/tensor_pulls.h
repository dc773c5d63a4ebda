// Pulls of tensors from other processes. A request reserves memory for all its tensors together;
// arguments precede other requests. Each attempt is a separate transfer, by holder and path; then
// holders are looked up. A holder may redirect a chunk to a replica holder, which is tried first
// with a short timeout. A pull ends once: bytes received, in the store, or the failure of the last
// attempt. Its reservation lasts until no transport writes to the memory.
// Thread: owner (part of `TensorExchangeCore`). Units: bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tensor/exchange/core/idle_connections.h"
#include "tensor/exchange/core/tensor_exchange_types.h"
#include "tensor/exchange/core/tensor_offers.h"
#include "tensor/exchange/core/two_sided_steps.h"

namespace mobula::internal::transfer {

class TensorPulls {
 public:
  TensorPulls(RegionContext& context, TwoSidedSteps& steps, TensorOffers& serves)
      : context_(context), steps_(steps), serves_(serves), connections_(context) {}

  // Creates one pull per request, in order. Fails with invalid_argument for a request without a
  // path, and with resource_exhausted if too many requests wait.
  Result<std::vector<RegionPullId>> pull(std::vector<TensorRequest> together, bool arguments);
  // Ends the pull as cancelled, once no transport writes to its memory.
  void cancel(RegionPullId pull);
  void located(ObjectId object, const RegionsLocated& answer);
  void reached(RegionPullId pull, ProcessId replica_holder, std::vector<DirectPath> paths);

  void on(ProcessId from, const PullTensorReply& message);
  void on(ProcessId from, const PullTensorQueued& message);
  void on(ProcessId from, const PullTensorRejected& message);
  void on(ProcessId from, const CloseConnectionReply& message);
  void supports_close(ProcessId holder) { connections_.supports_close(holder); }
  bool ended(OperationId operation, const std::optional<Failure>& failure);
  bool progressed(OperationId operation);
  // Result of a receiving side.
  void side_news(const SideNews& news);
  void peer_gone(ProcessId peer, bool may_return);
  void tick();
  std::optional<Time> next_deadline() const;

  std::size_t size() const { return pulls_.size(); }
  std::size_t connections() const { return connections_.size(); }
  std::uint64_t bytes_reserved() const { return reserved_; }

 private:
  enum class Stage : std::uint8_t {
    queued,      // waits for memory
    in_line,     // has memory; too many chunks are requested from this holder
    resolving,   // waits for the result of a lookup of holders
    reaching,    // connects to a replica holder
    closing,     // waits until the idle connection to the holder is closed, then requests
    requesting,  // waits for the reply of a holder
    moving,      // one-sided transfer
    stepping,    // two-sided transfer
    leaving,     // waits until the operation no longer accesses memory
  };
  struct Holder {
    ProcessId process;
    std::size_t path = 0;  // index of the next path to try
    int failures = 0;      // on this path
    bool may_redirect = true;
    bool keeps = false;               // a replica holder, named in a redirect
    bool disconnected = false;        // its connection broke; it may have the elements still
    std::vector<DirectPath> paths{};  // set for a replica holder only
  };
  struct Batch {
    std::uint64_t bytes = 0;
    std::vector<RegionPullId> pulls;  // not started
  };
  struct Pull {
    TensorRequest request;
    ProcessId line{};  // chunks: holder whose queue contains or contained the pull
    Stage stage = Stage::queued;
    std::deque<Holder> holders{};  // the first one is being tried
    std::set<ProcessId> gone{};    // without the elements, or dead
    ProcessId disconnected{};      // holder whose connection broke last
    TransferId transfer = 0;
    RegionChannel channel{};  // valid in `stepping` and the following `leaving`
    OperationId operation = 0;
    bool requested_again = false;
    bool unwanted = false;
    int lookups = 0;
    std::optional<Time> due{};
    std::vector<RegionAttempt> attempts{};
    Failure last{ErrorCode::unavailable, "nobody has it"};
    Time since{};
    Time began{};
    Time moves_since{};
  };

  void admit();
  // Starts queued chunks of a holder, up to `max_pending_parts`.
  void begin_chunks(ProcessId holder);
  void begin(RegionPullId id, Pull& pull);
  std::uint64_t bytes_of(const TensorRequest& request) const;
  static const std::vector<DirectPath>& paths_of(const Pull& pull) {
    const auto& holder = pull.holders.front();
    return holder.keeps ? holder.paths : pull.request.paths;
  }
  static DirectPath path_of(const Pull& pull) {
    return paths_of(pull).at(pull.holders.front().path);
  }
  void follow(Pull& pull, const std::vector<ProcessId>& replica_holders);
  bool is_backed_off(ProcessId replica_holder) const;
  void back_off(ProcessId replica_holder);
  void next_try(RegionPullId id, Pull& pull);
  void resolve_holders(RegionPullId id, Pull& pull);
  void request(RegionPullId id, Pull& pull);
  void send_pull(Pull& pull);
  void send_cancelled(ProcessId from, TransferId transfer);
  bool wants_from(ProcessId holder) const;
  // Records a failed attempt and drops its path or its holder if they must not be tried again.
  void try_failed(Pull& pull, Failure why, bool holder_is_out, bool path_is_out);
  void move_on(RegionPullId id, Pull& pull);
  void refused(RegionPullId id, Pull& pull, const PullTensorRejected& message);
  void stop_moving(RegionPullId id, Pull& pull);
  void quiet(RegionPullId id, Pull& pull);
  void complete(RegionPullId id, Pull& pull);
  void finish(RegionPullId id, RegionOutcome outcome);
  void forget_transfer(Pull& pull);
  void note(Pull& pull, std::string refusal);
  Pull* pull_of(ProcessId from, TransferId transfer, RegionPullId& id);

  RegionContext& context_;
  TwoSidedSteps& steps_;
  TensorOffers& serves_;
  IdleConnections connections_;
  std::map<RegionPullId, Pull> pulls_;
  std::deque<Batch> arguments_, others_;  // waiting for memory
  std::size_t waiting_ = 0;
  struct ChunkLine {
    std::deque<RegionPullId> waiting{};
    std::size_t pending = 0;  // started and not ended
  };
  // by first holder, so that a silent holder delays only its own queue
  std::map<ProcessId, ChunkLine> chunk_lines_;
  std::map<ProcessId, Time>
      backed_off_;  // replica holders to avoid, each with the end of that time
  std::map<TransferId, RegionPullId> transfers_;
  std::map<OperationId, RegionPullId> operations_;
  std::uint64_t reserved_ = 0;
  RegionPullId last_pull_ = 0;
  TransferId last_transfer_ = 0;
};

}  // namespace mobula::internal::transfer
