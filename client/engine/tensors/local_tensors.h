// Tensors that this process has registered, and tensors of other processes that it pulls. Elements
// stay registered while the client core counts refs to them. The exchange starts on first use.
// Thread: owner, under the engine's lock, which callbacks of the exchange thread take too.
// Not: counts of refs (ClientCore).
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/model/resident_results.h"
#include "client/core/calls/fifo_cache.h"
#include "client/engine/process_engine.h"
#include "mobula/detail/error_record.h"
#include "mobula/detail/wire.h"
#include "mobula/tensor.h"
#include "protocol/transfer_log.h"
#include "tensor/device_elements.h"
#include "tensor/exchange/tensor_exchange.h"
#include "tensor/origins.h"
#include "tensor/storage.h"

namespace mobula::internal::client {

using transfer::TransferLog;
using transfer::TransferRecord;

class LocalTensors {
 public:
  LocalTensors(std::shared_ptr<ProcessEngine> engine, exchange::ExchangeOptions options);
  // Ends the exchange. Must be called without the lock.
  ~LocalTensors();
  LocalTensors(const LocalTensors&) = delete;
  LocalTensors& operator=(const LocalTensors&) = delete;

  // Opens the GPUs of this process's lease if necessary, which may take a second. Called without
  // the lock, before the exchange starts.
  void open_devices();
  // True if prepare() would have to open them.
  bool would_open_devices() const;
  // Starts the exchange if necessary. Other processes can map memory that is allocated later.
  Result<void> prepare();

  // ---- exclusive turns on its devices for other operations (exchange/tensor_exchange.h) ----
  Result<std::uint64_t> claim_turn(std::uint32_t device_ordinal, std::function<void()> taken);
  void return_turn(std::uint64_t claim);

  // ---- tensors of this process ----
  // Registers the elements of `parts`, which fill their memory, for all holders of a ref. The
  // caller gets one ref.
  Result<RefRecord> keep(const detail::TensorParts& parts, const TransportPreference& preference);
  // Keeps the memory of tensors whose elements a value contains as the policy states, until no ref
  // to the result exists. The caller gets one ref.
  RefRecord freeze(std::span<const detail::IncludedTensor> included,
                   const TransportPreference& preference);
  // True if other processes of this machine can map them.
  bool can_be_seen(const detail::TensorParts& parts) const;
  // Registered objects in this memory.
  std::vector<ObjectId> kept_in(const detail::TensorStorage& storage) const;
  // Summary of all registered tensors, for the decision whether this process may exit.
  ResidentResults residence() const;
  // Starts writing all of them to the node's store. `evacuated` is true when all are stored there.
  void evacuate();
  bool evacuated() const;

  // Counts threads that wait until no process reads a tensor. They are woken when readers end.
  std::atomic<int>& waits_for_freed() { return *waits_for_freed_; }

  // ---- inputs of the engine ----
  // No ref to the object exists. True if a registered tensor ended. In a step.
  bool unneeded(ObjectId object);
  // These processes will never send a message again.
  void peers_died(const std::vector<ProcessId>& processes);
  TransfersReply reply_to(const TransfersRequest& query) const;
  // The head may be a new one.
  void head_connected();
  // The store was lost with the agent of the node, and the store of its successor is empty. Tensors
  // that were moved there are registered again, because they are still here.
  void register_again();
  // The ticket that this process presents, and newly revoked keys.
  void trust(const std::string& ticket, const std::vector<std::string>& revoked_keys);

  // ---- tensors of other processes ----
  // pull(), ready(), and drop() add events to the engine, which the running step or settle() takes.
  // Releases the refs of destroyed tensors over foreign elements. The last of them may be destroyed
  // under any lock, so they are queued; the engine's loop or the next caller releases them. May
  // release the lock temporarily.
  void take_back(ProcessEngine::Lock& lock);
  // Tensors that are pulled together. Shared by the waiting thread and the registry, which drops it
  // when all have arrived.
  struct Pull {
    std::uint64_t request = 0;
    std::size_t due = 0;                         // count of incomplete pulls at the exchange
    RefRecords in_store;                         // refs whose elements are read from the store
    std::map<ObjectId, TransferRecord> records;  // transfer records of refs in `in_store`
    RefRecords wanted;                           // refs requested from the exchange
    PooledVector<ObjectId> held;                 // objects with one ref each, until dropped
    PooledVector<ObjectId> lent;                 // arguments held by the caller
    PooledVector<std::shared_ptr<detail::TensorStorage>> got;  // kept until the values are read
  };
  using PullPtr = std::shared_ptr<Pull>;

  // Pulls the tensors that are not here. The caller of the task holds `arguments`. The result must
  // be passed to drop() with the lock held, and destroyed without it.
  // Device tensors are placed on `device` (an index of DeviceMemory); if unset, the default
  // destination of `get` applies.
  PullPtr pull(const RefRecords& tensors, bool arguments,
               const std::optional<TransportPreference>& preference = {},
               std::optional<int> device = {});
  // True if all pulls have completed or failed. Completed tensors are then available.
  bool ready(Pull& pull);
  // Ends the wait, or follows the read of the values.
  void drop(const PullPtr& pull);
  // Destroys a dropped pull and releases what it leaves without waking the loop. May release the
  // lock temporarily.
  void let_go(PullPtr pull, ProcessEngine::Lock& lock);
  // Elements available here: own ones, those kept by a pull, or those of a tensor still in use.
  detail::ApartTensor find(ObjectId object);
  // True if this process made all of these, so that no pull is needed.
  bool has_made(const RefRecords& tensors) const;
  // Error of the last pull of the object; null if it did not fail.
  const detail::ErrorRecord* why_missing(ObjectId object) const;

  // The latest transfers, oldest first.
  const std::deque<TransferRecord>& transfers() const { return log_.latest(); }
  // Logs a transfer of a collective group to this process.
  void note_of_group(TransferRecord record);
  // Sends the transfer counters to the head before a planned exit.
  void hand_on_counts();

 private:
  struct Kept {
    std::shared_ptr<detail::TensorStorage> storage;  // shared with the program
    std::int64_t byte_offset = 0;
    bool stored = false;  // also stored in the node's store
    std::int64_t size_bytes = 0;
    std::uint64_t order = 0;  // order of registration
  };
  // Memory of tensors whose elements a value contains. It is not pulled or written to the store.
  struct Frozen {
    std::shared_ptr<detail::TensorStorage> storage;  // shared with the program
    detail::TensorStorage::Hold hold;
  };
  using FrozenMemory = PooledVector<Frozen>;
  struct ToStore {
    ObjectId object;
    std::span<const std::byte> bytes;
    int device = on_host;
    std::shared_ptr<const void> owner;
  };
  // A pull that waits until the devices are open.
  struct Early {
    std::uint64_t request = 0;
    RefRecords tensors;
    bool arguments = false;
    std::optional<int> device;
  };

  // A mapped block of another process's shared memory.
  using BlockOf = std::pair<ProcessId, std::uint64_t>;
  // Queue of refs left by destroyed tensors over foreign elements, shared with them.
  struct Left;
  struct Lease;

  void unfreeze(FrozenMemory&& memory);
  detail::TensorStorage::Hold hold_for_readers(const detail::IncludedTensor& memory,
                                               const TransportPreference& preference,
                                               ObjectId object) const;
  bool see_in_place(Pull& pull, const RefRecord& ref);
  void remember_block(const RefRecord& ref, const exchange::Elements& elements);
  std::shared_ptr<const void> lease(ObjectId object, std::shared_ptr<const void> elements,
                                    bool viewed);
  void completed(exchange::PullResult arrival);
  void note(TransferRecord record);
  void write_to_store();
  std::optional<Failure> write_one(ProcessEngine::Lock& lock, const ToStore& what);
  std::optional<Failure> write_held(ProcessEngine::Lock& lock, const ToStore& what,
                                    std::int64_t size);
  void take_from_store(Pull& pull, const RefRecord& ref);
  void fail(ObjectId object, detail::ErrorRecord error);
  void want_early();
  void begin(Early&& pull);
  void landed(const detail::Landing& landing);
  void got(Pull& pull, ObjectId object, const exchange::Elements& elements,
           std::shared_ptr<const void> owner, std::string_view why_sealed);

  // shared; leases check whether it still exists
  const std::shared_ptr<ProcessEngine> shared_engine_;
  ProcessEngine& engine_;
  exchange::ExchangeOptions options_;  // its ticket and revoked keys may change
  // shared with the readers' leases
  const std::shared_ptr<std::atomic<int>> waits_for_freed_ = std::make_shared<std::atomic<int>>(0);
  // Called without the lock, on any thread, when no process reads the memory of a registered tensor
  // any more. Shared with all registered memory.
  const std::shared_ptr<const std::function<void()>> freed_;
  std::uint64_t made_ = 0;
  std::uint64_t claims_ = 0;
  std::uint64_t requests_ = 0;
  PooledMap<ObjectId, Kept> kept_;
  PooledMap<ObjectId, FrozenMemory> frozen_;
  PooledMap<std::uint64_t, ObjectId> kept_by_age_;
  std::int64_t kept_bytes_ = 0;
  std::map<std::uint64_t, PullPtr> pulls_;
  std::map<ObjectId, std::weak_ptr<detail::TensorStorage>> here_;  // pulled tensors
  std::map<ObjectId, detail::ErrorRecord> failed_;                 // errors of recent pulls
  TransferLog log_;
  bool counts_due_ = false;  // the head lacks the latest counters
  // blocks in which further tensors can be mapped
  std::map<BlockOf, MappedFile> blocks_;
  FifoCache<ProcessId, bool> dead_;  // processes that died lately
  const std::shared_ptr<Left> left_;
  std::deque<ToStore> to_store_;
  std::vector<Early> early_;
  bool ending_ = false;
  std::thread opening_;  // opens the devices for pulls that must not block the caller
  std::thread storing_;  // writes tensors to the store; starts with the first write
  std::unique_ptr<exchange::TensorExchange> exchange_;
};

}  // namespace mobula::internal::client
