// What this node lets others read: bytes by the number of their offer, and the rights by which
// readers begin connections. One right for each reader, so that its connections serve all it reads.
// Any thread; the lock is held for look-ups alone.
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
#include "transport/bulk_server.h"

namespace mobula::internal::worker {

// Memory to read or write, and what keeps it there. Shared, because it outlives its owner's use of
// it while a transfer runs.
struct BulkSource {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keeps;
};

class BulkOffers {
 public:
  struct Right {
    BulkToken token{};
    std::optional<SealKey> key;  // none: plain
  };

  // From now on `reader` may read these bytes, with the right that is returned.
  Right add(Time now, std::uint64_t offer, ProcessId reader, bool plain, BulkSource source);
  // Nobody may begin to read it any more. True if nobody reads it now: it is over.
  bool withdraw(std::uint64_t offer);

  // For a server: what a token gives a right to; the principal is for `begin`.
  std::optional<BulkAccess> access(const BulkToken& token) const;
  // The part of an offer that a reader asks for. It stays until `end`. not_found if it may not, or
  // not any more; invalid_argument for a part that is none.
  Result<BulkSource> begin(const std::string& principal, std::uint64_t offer, std::uint64_t offset,
                           std::uint64_t size_bytes);
  // True if that was the last reading of an offer that has been withdrawn: it is over.
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
  using ReaderKey = std::pair<ProcessId, bool>;  // and whether plain

  void forget_idle(Time now) MOBULA_REQUIRES(mutex_);
  void erase(std::map<std::uint64_t, Offer>::iterator at) MOBULA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<std::uint64_t, Offer> offers_ MOBULA_GUARDED_BY(mutex_);
  std::map<ReaderKey, Reader> readers_ MOBULA_GUARDED_BY(mutex_);
  std::map<BulkToken, ReaderKey> tokens_ MOBULA_GUARDED_BY(mutex_);
};

}  // namespace mobula::internal::worker
