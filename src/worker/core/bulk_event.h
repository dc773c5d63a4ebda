// Of what the agent's core is told (worker_event.h): how bytes to and from peers fare. Plain structs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/fields.h"
#include "base/result.h"

namespace mobula::internal::worker {

// The end of a FetchBulk, also of a cancelled one: it writes no more.
struct ChunkFetched {
  std::uint64_t chunk = 0;
  std::optional<Failure> failure;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("chunk", &ChunkFetched::chunk), field("failure", &ChunkFetched::failure));
  }
  friend bool operator==(const ChunkFetched&, const ChunkFetched&) = default;
};

// Answer to FinishFilePull.
struct PullFinished {
  std::uint64_t pull = 0;
  std::optional<Failure> failure;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &PullFinished::pull), field("failure", &PullFinished::failure));
  }
  friend bool operator==(const PullFinished&, const PullFinished&) = default;
};

// Answer to OfferObject and OfferFile: where a peer may read, or why not.
struct BulkOffered {
  std::uint64_t offer = 0;
  std::int64_t size_bytes = 0;
  std::string token;
  std::string key;  // empty: plain on a trusted fabric
  std::optional<Failure> failure;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("offer", &BulkOffered::offer), field("size_bytes", &BulkOffered::size_bytes),
                 field("token", &BulkOffered::token), field("key", &BulkOffered::key),
                 field("failure", &BulkOffered::failure));
  }
  friend bool operator==(const BulkOffered&, const BulkOffered&) = default;
};

// Answer to WithdrawBulk: nobody reads it any more, and nobody will.
struct BulkServed {
  std::uint64_t offer = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("offer", &BulkServed::offer));
  }
  friend bool operator==(const BulkServed&, const BulkServed&) = default;
};

}  // namespace mobula::internal::worker
