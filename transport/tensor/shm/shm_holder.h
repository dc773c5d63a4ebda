// Holder side of shm and cuda_ipc: offers, the files behind them, and the connections of receivers
// that request these files.
// Thread: the event loop; callbacks run through `Later`.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "transport/local/local_link.h"
#include "transport/local/local_listener.h"
#include "transport/tensor/arena.h"
#include "transport/tensor/copy_threads.h"
#include "transport/tensor/deferred_calls.h"
#include "transport/tensor/limits.h"
#include "transport/tensor/offer_versions.h"
#include "transport/tensor/shm/mapped_medium.h"
#include "transport/tensor/shm/shm_wire.h"
#include "transport/tensor/tensor_transport.h"

namespace mobula::internal {

// References that both sides of a transport share, with its counters.
struct ShmShared {
  EventLoop& loop;
  DeferredCalls& later;
  Copies& copies;
  const MappedMedium& medium;
  const DirectLimits& limits;
  const ShmEndpoint& self;
  TransportStats& stats;
};

class ShmHolder {
 public:
  // `arena` receives copies of host memory that receivers cannot map; null for devices.
  static Result<std::unique_ptr<ShmHolder>> create(ShmShared shared, Arena* arena);
  ~ShmHolder();
  ShmHolder(const ShmHolder&) = delete;
  ShmHolder& operator=(const ShmHolder&) = delete;

  void offer(Offer offer, TensorTransport::Offered offered);
  void release(TransferId transfer, TensorTransport::Quiet quiet);
  // Releases the offers to this peer, or all if null.
  void release_all(const ProcessId* peer, const QuietGate& gate);
  // Withdraws a file: no receiver may map it any more, and all receivers unmap it. Its offers have
  // ended.
  void forget(FileKey file);
  std::size_t offers() const { return offers_.size(); }
  std::size_t sessions() const { return sessions_.size(); }

 private:
  struct Exported {
    ShmFileRef ref;
    Fd fd;
    std::uint64_t size = 0;
    std::size_t offers = 0;
    bool forgotten = false;  // removed with its last offer
  };
  struct Row {
    ChannelKey to;
    OfferVersion mark;
    std::vector<FileKey> files;
    std::vector<ArenaBytes> copied;
    std::uint64_t copy = 0;  // copy in progress, 0 if none
    Blob ticket;
    TensorTransport::Offered offered;
    bool released = false;
    std::vector<TensorTransport::Quiet> quiet;
  };
  struct Session {
    std::unique_ptr<LocalLink> link;
    ProcessId peer;  // empty until its hello
    std::uint64_t epoch = 0;
    Time since;
  };

  ShmHolder(ShmShared shared, Arena* arena);
  Result<void> open();
  Result<void> check(const Offer& offer) const;
  Result<Copy> prepare(const Offer& offer, Row& row);
  Result<ShmFileRef> export_file(const MemoryFile& file, std::uint64_t size, Row& row);
  void finish_copy(TransferId transfer, const CopyEnd& end);
  void drop(Row& row);
  void unuse(FileKey file);
  void accept(Fd socket);
  void on_frame(std::uint64_t number, const LocalFrame& frame);
  Result<void> on_hello(Session& session, const ShmHello& hello);
  Result<void> on_request(Session& session, const ShmFileRequest& request);
  void check();

  ShmShared shared_;
  Arena* const arena_;
  const Hash128 ticket_key_;
  const std::unique_ptr<Hash128> proof_;  // on the heap: receivers try to read it there
  OfferVersions ledger_;
  ShmFileRef ledger_ref_;
  std::map<FileKey, Exported> files_;
  std::uint64_t next_file_ = ledger_number + 1;
  std::map<TransferId, Row> offers_;
  std::map<ProcessId, std::uint64_t> epochs_;  // highest epoch of each peer
  std::map<std::uint64_t, Session> sessions_;
  std::uint64_t next_session_ = 1;
  std::unique_ptr<LocalListener> listener_;
  Timer check_timer_;
};

}  // namespace mobula::internal
