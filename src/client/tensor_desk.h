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
#include "model/residence.h"
#include "mobula/detail/error_record.h"
#include "mobula/detail/wire.h"
#include "mobula/tensor.h"
#include "tensor/device_elements.h"
#include "tensor/storage.h"
#include "transfer/core/transfer_books.h"

namespace mobula::internal::client {

using transfer::TransferBooks;
using transfer::TransferRecord;

class TensorDesk {
 public:
  struct Callbacks {
    // With the lock held, on some thread: something that is pulled has come, or what was kept has gone.
    std::function<void()> changed;
    // Without the lock, on some thread: memory that was read is its program's alone again.
    std::function<void()> freed;
  };

  TensorDesk(std::shared_ptr<ProcessEngine> engine, exchange::ExchangeOptions options, Callbacks callbacks);
  // Without the lock. Ends the exchange.
  ~TensorDesk();
  TensorDesk(const TensorDesk&) = delete;
  TensorDesk& operator=(const TensorDesk&) = delete;

  // Opens the GPUs of this process's lease, where they are not, which may take a second: without the lock,
  // before anything that starts the exchange.
  void open_devices();
  // prepare() would have to open them.
  bool would_open_devices() const;
  // Starts the exchange, where it is not: what is allocated from then on can be read by others in place.
  Result<void> prepare();

  // ---- turns of its devices, for what is no transfer (exchange/tensor_exchange.h) ----
  Result<std::uint64_t> claim_turn(std::uint32_t lane, std::function<void()> taken);
  void return_turn(std::uint64_t claim);

  // ---- what this process has ----
  // The elements of `parts`, which fill their memory, are readable by whoever refers to them. The caller
  // gets one ref.
  Result<RefRecord> keep(const detail::TensorParts& parts, const DirectWish& wish);
  // Whether other processes of this machine can see them where they lie.
  bool can_be_seen(const detail::TensorParts& parts) const;
  // Those that lie in this memory.
  std::vector<ObjectId> kept_in(const detail::TensorStorage& storage) const;
  // All that is kept, for who asks whether this process may end.
  Residence residence() const;
  // Into the node's store with all of them; `evacuated` when nobody reads them here any more.
  void evacuate();
  bool evacuated() const;

  // ---- what it needs ----
  // Tensors over elements of others, whose last ones may go under any lock, leave them here; it is taken
  // back by the engine's loop, or by who calls this first. Gives the lock up meanwhile.
  void take_back(ProcessEngine::Lock& lock);
  // What is pulled together. Shared by who waits and the desk, which lets go when all has come.
  struct Pull {
    std::uint64_t wish = 0;
    std::size_t due = 0;                             // at the exchange
    RefRecords in_store;                             // to be read from there
    std::map<ObjectId, TransferRecord> records;      // of these
    RefRecords wanted;                               // at the exchange
    RecycledVector<ObjectId> held;                   // by a ref each, until it is dropped
    RecycledVector<ObjectId> lent;                   // for arguments: by the caller, until EndLoans is said
    RecycledVector<std::shared_ptr<detail::TensorStorage>> got;  // kept until the values are read
  };
  using PullPtr = std::shared_ptr<Pull>;

  // Brings those that are not here. Of `arguments` the caller has holds. To be dropped, with the lock held; and
  // let go of without it.
  // Those of devices come to `device` (as DeviceMemory counts), without it where each belongs.
  PullPtr pull(const RefRecords& tensors, bool arguments, const std::optional<DirectWish>& wish = {},
               std::optional<int> device = {});
  // Whether all has come or failed; what has come is then here.
  bool ready(Pull& pull);
  // It is not waited for any more, or its values have been read.
  void drop(const PullPtr& pull);
  // Of one that was dropped: takes back what it leaves, with no word to the loop. Gives the lock up meanwhile.
  void let_go(PullPtr pull, ProcessEngine::Lock& lock);
  // Elements that are here: own ones, or those that a pull keeps, or a tensor that is still used.
  detail::ApartTensor find(ObjectId object);
  // All of these are own ones, which nothing has to be brought for: who refers to them has them kept.
  bool has_made(const RefRecords& tensors) const;
  // Why the last pull of it failed; null if it did not.
  const detail::ErrorRecord* why_missing(ObjectId object) const;

  // The latest ones, oldest first.
  const std::deque<TransferRecord>& transfers() const { return books_.latest(); }
  // What a collective group moved here.
  void note_of_group(TransferRecord record);
  // Tells the head how many there were: before a planned end, since nobody can ask after it.
  void hand_on_counts();

 private:
  struct Kept {
    std::shared_ptr<detail::TensorStorage> storage;  // the program's, shared with it
    std::int64_t byte_offset = 0;
    bool stored = false;  // they lie in the node's store as well
    std::int64_t size_bytes = 0;
    std::uint64_t order = 0;  // of those that are kept
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
    RefRecords tensors;
    bool arguments = false;
    std::optional<int> device;
  };

  // A block of another process's shared memory that is mapped here.
  using BlockOf = std::pair<ProcessId, std::uint64_t>;
  // What tensors over elements of others have left, shared with them.
  struct Left;
  struct Lease;

  void unneeded(ObjectId object);
  void publish_again();
  bool see_in_place(Pull& pull, const RefRecord& ref);
  void remember_block(const RefRecord& ref, const exchange::Elements& elements);
  std::shared_ptr<const void> lease(ObjectId object, std::shared_ptr<const void> elements, bool viewed);
  void arrived(exchange::Arrival arrival);
  void note(TransferRecord record);
  TransfersTold told(const AskTransfers& asked) const;
  void write_to_store();
  std::optional<Failure> write_one(ProcessEngine::Lock& lock, const ToStore& what);
  std::optional<Failure> write_held(ProcessEngine::Lock& lock, const ToStore& what, std::int64_t size);
  void take_from_store(Pull& pull, const RefRecord& ref);
  void fail(ObjectId object, detail::ErrorRecord error);
  void want_early();
  void landed(const detail::Landing& landing);
  void got(Pull& pull, ObjectId object, const exchange::Elements& elements, std::shared_ptr<const void> owner,
           std::string_view why_sealed);

  const std::shared_ptr<ProcessEngine> shared_engine_;  // leases look whether it is still there
  ProcessEngine& engine_;
  exchange::ExchangeOptions options_;  // what it shows and whom it honours may change
  const Callbacks callbacks_;
  const std::shared_ptr<const std::function<void()>> freed_;  // what all that is published calls
  std::uint64_t made_ = 0;
  std::uint64_t claims_ = 0;
  std::uint64_t wishes_ = 0;
  RecycledMap<ObjectId, Kept> kept_;
  RecycledMap<std::uint64_t, ObjectId> kept_by_age_;
  std::int64_t kept_bytes_ = 0;
  std::map<std::uint64_t, PullPtr> pulls_;
  std::map<ObjectId, std::weak_ptr<detail::TensorStorage>> here_;  // pulled
  std::map<ObjectId, detail::ErrorRecord> failed_;                 // lately
  TransferBooks books_;
  bool counts_due_ = false;  // the head has not been told of the last ones
  std::map<BlockOf, MappedFile> blocks_;                           // where more may be seen
  const std::shared_ptr<Left> left_;
  std::deque<ToStore> to_store_;
  std::vector<Early> early_;
  bool ending_ = false;
  std::thread opening_;  // opens the devices for pulls that nobody's thread waits for
  std::thread storing_;  // writes what has to go into the store; from the first of them on
  std::unique_ptr<exchange::TensorExchange> exchange_;
};

}  // namespace mobula::internal::client
