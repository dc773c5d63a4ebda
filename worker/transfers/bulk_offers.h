// Bytes that other nodes may read, by the number of their offer, and the access tokens with which
// readers open connections. Each reader has one token, so one connection serves all its reads.
// Thread: any; the lock is held only for table operations. Units: bytes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/id.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/bulk/bulk_server.h"

namespace mobula::internal::worker {

// Memory to read or write, and its owner. Shared, because a transfer may outlive other uses of the
// memory.
struct BulkSource {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keeps;
};

class BulkOffers {
 public:
  struct Right {
    BulkToken token{};
    std::optional<SealKey> key;  // empty: unencrypted
  };

  // Lets `reader` read these bytes with the returned access token.
  Right add(Time now, std::uint64_t offer, ProcessId reader, bool plain, BulkSource source);
  // Rejects new reads of the offer. True if no read is in progress: the offer is finished.
  bool withdraw(std::uint64_t offer);

  // For a server: the access that a token grants. The principal is passed to `begin`.
  std::optional<BulkAccess> access(const BulkToken& token) const;
  // Begins a read of a chunk of an offer; the memory stays until `end`. not_found if the reader has
  // no access or the offer is withdrawn; invalid_argument for a range outside the offer.
  Result<BulkSource> begin(const std::string& principal, std::uint64_t offer, std::uint64_t offset,
                           std::uint64_t size_bytes);
  // Ends a read. True if it was the last read of a withdrawn offer: the offer is finished.
  bool end(std::uint64_t offer);

 private:
  struct Offer {
    BulkSource source;
    ProcessId reader;
    int reading = 0;
    bool withdrawn = false;
  };
  struct Reader {
    Right right;
    Time last_used;
    std::size_t offers = 0;
  };
  using ReaderKey = std::pair<ProcessId, bool>;  // reader, and whether unencrypted

  void forget_idle(Time now) MOBULA_REQUIRES(mutex_);
  void erase(std::map<std::uint64_t, Offer>::iterator at) MOBULA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<std::uint64_t, Offer> offers_ MOBULA_GUARDED_BY(mutex_);
  std::map<ReaderKey, Reader> readers_ MOBULA_GUARDED_BY(mutex_);
  std::map<BulkToken, ReaderKey> tokens_ MOBULA_GUARDED_BY(mutex_);
};

}  // namespace mobula::internal::worker
