// Offers of tensors: which readers may read them, and when their bytes are freed. A large object
// has few readers at a time, a chunk has one; further readers wait or are redirected to replicas,
// which forms a tree. Replicas of remote objects are offered in the same way until `retire`. The
// number of offers per reader is limited. A slow reader stops counting against the limits of others
// after `offer_quantum`, and its offer continues.
// Thread: owner (part of `TensorExchangeCore`).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/containers/table.h"
#include "tensor/exchange/core/tensor_exchange_types.h"
#include "tensor/exchange/core/two_sided_steps.h"

namespace mobula::internal::transfer {

class TensorOffers {
 public:
  TensorOffers(RegionContext& context, TwoSidedSteps& steps) : context_(context), steps_(steps) {}

  // `device_ordinal`: ordinal of the device that has the tensor.
  void register_tensor(ObjectId object, std::uint64_t size_bytes, std::uint32_t device_ordinal);
  // Offers a chunk of another process's object that was received from `from`. Returns false for a
  // local object and for a replica that was retired.
  bool keep(ObjectId object, std::uint64_t size_bytes, std::uint32_t part, ProcessId from);
  // The last ref was released, or the replica is no longer in this process.
  void unregister(ObjectId object);
  // Copies the object to the node's store when no offer is active.
  void evacuate(ObjectId object);
  void stored(ObjectId object, const std::optional<Failure>& failure);

  void on(ProcessId from, const PullTensorRequest& message);
  void on(ProcessId from, const PullTensorComplete& message);
  void on(ProcessId from, const PullTensorCancelled& message);
  void on(ProcessId from, const ReplicaEvicted& message);
  void on(ProcessId from, const CloseConnectionRequest& message);
  bool exported(OperationId operation, const Result<std::string>& ticket);
  bool ended(OperationId operation);
  // Result of a sending side.
  void side_news(const SideNews& news);
  void peer_gone(ProcessId peer);
  void tick();
  std::optional<Time> next_deadline() const;

  bool has(ObjectId object) const { return rows_.contains(object); }
  // True if chunks of the object are relayed here.
  bool has_copy(ObjectId object) const {
    const auto* row = rows_.find(object);
    return row != nullptr && row->is_copy && !row->retired;
  }
  // True if `holder` redirects readers of its objects to this process.
  bool keeps_of(ProcessId holder) const;
  std::size_t size() const { return rows_.size(); }
  std::size_t serves() const { return serves_.size(); }

 private:
  using ServeId = std::uint64_t;
  enum class Stage : std::uint8_t {
    waiting,  // waits for the end of another offer, or for a replica
    exporting,
    ready,     // the receiver has the ticket; two-sided: steps are in progress
    stopping,  // two-sided: waits until its step no longer accesses memory
    unexporting,
  };
  struct Serve {
    ProcessId peer;
    TransferId transfer = 0;
    ObjectId object;
    std::uint32_t part = 0;
    DirectPath path = DirectPath::shm;
    RegionChannel channel;  // two-sided paths only
    bool may_redirect = true;
    Stage stage = Stage::waiting;
    bool over = false;          // ended while exporting: unexport it immediately
    bool counted = false;       // counts against the limits of all readers
    std::optional<Time> due{};  // time at which it stops counting
    OperationId operation = 0;  // the export
    std::string ticket;
  };
  struct Part {
    std::size_t counted = 0;  // active offers that count
    std::deque<ServeId> waiting{};
    std::vector<ProcessId> copies{};
    std::size_t next_copy = 0;
  };
  struct Row {
    std::uint64_t size_bytes = 0;
    std::uint32_t device_ordinal = 0;
    bool is_copy = false;            // replica of another process's object
    std::set<std::uint32_t> kept{};  // replica: available chunks
    std::set<ProcessId> notified{};  // holders that redirect readers to this replica
    // chunks with offers, replicas, or waiting readers; 0: the whole object
    std::map<std::uint32_t, Part> parts{};
    std::vector<ServeId> active{};
    std::size_t waiting = 0;  // sum over all chunks
    bool retired = false;
    bool leaving = false;  // moves to the store
    bool storing = false;  // the copy to the store is in progress
  };

  struct PeerUse {
    std::size_t active = 0, parts = 0, waiting = 0;  // `parts`: chunks among the active offers
  };

  std::size_t most_at_once(const Row& row, const Serve& serve) const;
  bool may_start(const Row& row, const Serve& serve) const;
  // True if a replica exists and this process is busy with other offers.
  bool is_better_elsewhere(const Row& row, const Serve& serve) const;
  bool is_part(const Row& row, std::uint32_t part) const;
  // The offer no longer counts against the limits of other readers.
  void discount(ServeId id, Serve& serve, Row& row);
  // Removes a waiting offer from the counts.
  void leave_line(const Serve& serve, Row& row);
  template <class Which>
  void refuse_waiting(Row& row, RegionRefusal why, const std::string& text, Which which);
  void start(ServeId id, Serve& serve, Row& row);
  void report_ready(const Serve& serve);
  void refuse(const Serve& serve, RegionRefusal why, std::string text = {},
              std::vector<ProcessId> others = {});
  // Redirects a reader to a replica of another process; returns false without one.
  bool redirect(const Serve& serve, Row& row);
  void end_all_of(ProcessId peer);
  // Ends an offer: the reader has all bytes (`taken`), left, or was rejected.
  void end(ServeId id, bool taken = false);
  void unexport(ServeId id, Serve& serve);
  void gone(ServeId id);
  // Starts waiting offers up to the limits.
  void go_on(ObjectId object);
  void go_on_all();
  void settle(ObjectId object);

  RegionContext& context_;
  TwoSidedSteps& steps_;
  Table<ObjectId, Row> rows_;
  std::set<ObjectId> stored_;  // moved to the store; until they are retired
  std::map<ServeId, Serve> serves_;
  std::map<std::pair<ProcessId, TransferId>, ServeId> by_transfer_;
  std::map<OperationId, ServeId> operations_;
  std::map<ProcessId, PeerUse> peers_;
  std::set<std::pair<Time, ServeId>> due_;
  std::size_t counted_ = 0, waiting_ = 0;
  ServeId last_ = 0;
};

}  // namespace mobula::internal::transfer
