// The tensors of one process that stay where they were made, and those of others that it needs: beside the
// client core, which counts who refers to them. Elements are kept until nobody does; what is needed is
// pulled by the process's exchange, which starts with the first use. For the holder of the engine's lock,
// which what it is told by the exchange's thread takes, too.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "client/process_engine.h"
#include "exchange/tensor_exchange.h"
#include "mobula/detail/error_record.h"
#include "mobula/detail/wire.h"
#include "mobula/tensor.h"
#include "tensor/device_elements.h"
#include "tensor/storage.h"

namespace mobula::internal::client {

// One way that elements have come here.
struct TransferRecord {
  std::optional<DirectPath> path;  // none: they were in the store
  std::int64_t size_bytes = 0;
  Duration queued{};
  Duration moved{};
  bool in_place = false;
  bool encrypted = false;
  ProcessId holder;
  std::vector<std::string> refusals;  // of paths that were not taken, and of tries that failed
};

class TensorDesk {
 public:
  struct Callbacks {
    // With the lock held, on some thread: something that is pulled has come, or what was kept has gone.
    std::function<void()> changed;
    // Without the lock, on some thread: memory that was read is its program's alone again.
    std::function<void()> freed;
    // One more who reads elements of others in place, or in the store (`viewed`), until it is gone. With the
    // lock held.
    std::function<std::shared_ptr<const void>(ObjectId, std::shared_ptr<const void> elements, bool viewed)> lease;
  };

  TensorDesk(ProcessEngine& engine, exchange::ExchangeOptions options, Callbacks callbacks);
  // Without the lock. Ends the exchange.
  ~TensorDesk();
  TensorDesk(const TensorDesk&) = delete;
  TensorDesk& operator=(const TensorDesk&) = delete;

  // Opens the GPUs of this process's lease, where they are not, which may take a second: without the lock,
  // before anything that starts the exchange.
  void open_devices();
  // Starts the exchange, where it is not: what is allocated from then on can be read by others in place.
  Result<void> prepare();

  // ---- what this process has ----
  // The elements of `parts`, which fill their memory, are readable by whoever refers to them. The caller
  // gets one ref.
  Result<RefRecord> keep(const detail::TensorParts& parts, const DirectWish& wish);
  // Those that lie in this memory.
  std::vector<ObjectId> kept_in(const detail::TensorStorage& storage) const;
  // Into the node's store with all of them; `evacuated` when nobody reads them here any more.
  void evacuate();
  bool evacuated() const;

  // ---- what it needs ----
  // What is pulled together. Shared by who waits and the desk, which lets go when all has come.
  struct Pull {
    std::uint64_t wish = 0;
    std::size_t due = 0;                             // at the exchange
    std::vector<RefRecord> in_store;                 // to be read from there
    std::map<ObjectId, std::string> tried;           // of these: why they did not come from their holder
    std::vector<ObjectId> held;                      // by a ref each, until it is dropped
    std::vector<std::shared_ptr<detail::TensorStorage>> got;  // kept until the values are read
  };
  using PullPtr = std::shared_ptr<Pull>;

  // Brings those that are not here. To be dropped, with the lock held; and let go of without it.
  // Those of devices come to `device` (as DeviceMemory counts), without it where each belongs.
  PullPtr pull(const std::vector<RefRecord>& tensors, bool arguments, const std::optional<DirectWish>& wish = {},
               std::optional<int> device = {});
  // Whether all has come or failed; what has come is then here.
  bool ready(Pull& pull);
  // It is not waited for any more, or its values have been read.
  void drop(const PullPtr& pull);
  // Elements that are here: own ones, or those that a pull keeps, or a tensor that is still used.
  detail::ApartTensor find(ObjectId object);
  // Why the last pull of it failed; null if it did not.
  const detail::ErrorRecord* why_missing(ObjectId object) const;

  // The latest ones, oldest first.
  const std::deque<TransferRecord>& transfers() const { return transfers_; }

 private:
  struct Kept {
    std::shared_ptr<detail::TensorStorage> storage;  // the program's, shared with it
    std::int64_t byte_offset = 0;
    bool stored = false;  // they lie in the node's store as well
  };
  struct ToStore {
    ObjectId object;
    std::span<const std::byte> bytes;
    int device = on_host;
    std::shared_ptr<const void> owner;
  };
  // Waits for the devices to be open.
  struct Early {
    std::uint64_t wish = 0;
    std::vector<RefRecord> tensors;
    bool arguments = false;
    std::optional<int> device;
  };

  void unneeded(ObjectId object);
  void arrived(exchange::Arrival arrival);
  void write_to_store();
  std::optional<Failure> write_one(ProcessEngine::Lock& lock, const ToStore& what);
  void take_from_store(Pull& pull, const RefRecord& ref);
  void fail(ObjectId object, detail::ErrorRecord error);
  void want_early();
  void landed(const detail::Landing& landing);
  void got(Pull& pull, ObjectId object, const exchange::Elements& elements, std::shared_ptr<const void> owner,
           std::string why_sealed);

  ProcessEngine& engine_;
  const exchange::ExchangeOptions options_;
  const Callbacks callbacks_;
  std::uint64_t made_ = 0;
  std::uint64_t wishes_ = 0;
  std::map<ObjectId, Kept> kept_;
  std::map<std::uint64_t, PullPtr> pulls_;
  std::map<ObjectId, std::weak_ptr<detail::TensorStorage>> here_;  // pulled
  std::map<ObjectId, detail::ErrorRecord> failed_;                 // lately
  std::deque<TransferRecord> transfers_;
  std::deque<ToStore> to_store_;
  std::vector<Early> early_;
  bool ending_ = false;
  std::thread opening_;  // opens the devices for pulls that nobody's thread waits for
  std::thread storing_;  // writes what has to go into the store; from the first of them on
  std::unique_ptr<exchange::TensorExchange> exchange_;
};

}  // namespace mobula::internal::client
