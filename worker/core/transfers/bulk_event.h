// Events of the agent core about bulk bytes: results of the commands in bulk_command.h.
// Alternatives of Event in worker_event.h. Plain structs.
// Thread: any. Units: bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/fields.h"
#include "base/result.h"

namespace mobula::internal::worker {

// The end of a FetchBulk, also of a cancelled one: no byte is written after it.
struct ChunkFetched {
  std::uint64_t chunk = 0;
  std::optional<Failure> failure;
  MOBULA_FIELDS(chunk, failure);
  friend bool operator==(const ChunkFetched&, const ChunkFetched&) = default;
};

// Reply to FinishFilePull.
struct PullFinished {
  std::uint64_t pull = 0;
  std::optional<Failure> failure;
  MOBULA_FIELDS(pull, failure);
  friend bool operator==(const PullFinished&, const PullFinished&) = default;
};

// Reply to OfferObject and OfferFile: the access token for the peer, or the failure.
struct BulkOffered {
  std::uint64_t offer = 0;
  std::int64_t size_bytes = 0;
  std::string token;
  std::string key;  // empty: unencrypted, on a trusted fabric
  std::optional<Failure> failure;
  MOBULA_FIELDS(offer, size_bytes, token, key, failure);
  friend bool operator==(const BulkOffered&, const BulkOffered&) = default;
};

// Reply to WithdrawBulk: no peer reads the offer, now or later.
struct BulkServed {
  std::uint64_t offer = 0;
  MOBULA_FIELDS(offer);
  friend bool operator==(const BulkServed&, const BulkServed&) = default;
};

}  // namespace mobula::internal::worker
