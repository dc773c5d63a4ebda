// Values of the queue that pulls objects from other nodes: requests, limits, and commands.
// Thread: any (plain values).
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/id.h"
#include "base/result.h"
#include "base/time.h"

namespace mobula::internal::transfer {

using PullId = std::uint64_t;         // 0: none
using RequestNumber = std::uint64_t;  // one request to one node; the `pull` field of `PullRequest`
using ChunkId = std::uint64_t;        // one attempt to read one chunk

// An object, or a program file identified by the hash of its bytes; the other member is empty.
struct PullKey {
  ObjectId object;
  Hash128 file;
  friend auto operator<=>(const PullKey&, const PullKey&) = default;
};

struct PullOptions {
  std::uint64_t chunk_bytes = std::uint64_t{4} << 20;
  std::size_t max_pulls = 16;                          // admitted pulls, with or without memory
  std::uint64_t max_bytes = std::uint64_t{256} << 20;  // requested and not yet received
  std::size_t chunks_per_source = 8;                   // in transit from one node, over all pulls
  std::size_t max_sources = 4;  // nodes that one pull reads from at the same time
  std::size_t max_waiting = 65536;
  Duration answer_timeout = 10s;  // for the reply to a `PullRequest`
  // in addition to the transfer time, at `least_bytes_per_second`, of the bytes in transit from the
  // node
  Duration chunk_timeout = 5s;
  std::uint64_t least_bytes_per_second = std::uint64_t{4} << 20;
  // while the missing chunks exist only at nodes that still pull them
  Duration stalled_timeout = 10s;
  Duration retry_backoff = 50ms;  // after the first failure of a source; doubles with each failure
  int source_failures = 5;        // consecutive failures before a source is given up
  Duration busy_backoff = 100ms;
  int busy_rounds = 100;
};

struct ObjectRequest {
  PullKey key{};
  std::uint64_t size_bytes = 0;
  std::vector<NodeId> sources{};  // sources in the order of the requests
  bool argument = false;          // a call waits for it
  std::uint64_t spread = 0;  // selects the first chunk, so that readers start at different chunks
};

// Permission to read from a source; part of each request to it.
struct ReadRight {
  std::string token;
  std::string secret;
  std::uint64_t offer = 0;
  friend bool operator==(const ReadRight&, const ReadRight&) = default;
};

// The pull is admitted: allocate memory, then call `placed`, `waits_for_space`, or `refused`.
struct BeginPull {
  PullId pull = 0;
  PullKey key;
  std::uint64_t size_bytes = 0;
  friend bool operator==(const BeginPull&, const BeginPull&) = default;
};
// Request permission to read from `from` (`PullRequest`), then call `answered`.
struct RequestSource {
  RequestNumber request = 0;
  NodeId from;
  PullKey key;
  friend bool operator==(const RequestSource&, const RequestSource&) = default;
};
// The source may release the object (`PullComplete`).
struct ReleaseSource {
  RequestNumber request = 0;
  NodeId from;
  PullKey key;
  friend bool operator==(const ReleaseSource&, const ReleaseSource&) = default;
};
// Read these bytes, then call `fetched`.
struct FetchChunk {
  ChunkId chunk = 0;
  PullId pull = 0;
  NodeId from;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
  ReadRight right;
  friend bool operator==(const FetchChunk&, const FetchChunk&) = default;
};
// Abort the read; `fetched` still follows.
struct CutChunk {
  ChunkId chunk = 0;
  friend bool operator==(const CutChunk&, const CutChunk&) = default;
};
// The chunk is complete, so other nodes may read it here.
struct ChunkThere {
  PullId pull = 0;
  PullKey key;
  std::uint32_t number = 0;
  friend bool operator==(const ChunkThere&, const ChunkThere&) = default;
};
// All bytes of a file are received: verify them, then call `completed`.
struct CompletePull {
  PullId pull = 0;
  friend bool operator==(const CompletePull&, const CompletePull&) = default;
};
// Contribution of one source to a pull.
struct PullShare {
  NodeId from;
  std::uint64_t bytes = 0;
  Time began;  // time of the first request
  Time ended;  // time of the last completion or failure
  bool sealed = false;
  friend bool operator==(const PullShare&, const PullShare&) = default;
};
// Progress of a pull that has not ended.
struct PullProgress {
  enum class Wait : unsigned char {
    none,
    turn,     // waits for admission
    placing,  // memory is being allocated
    space,    // no memory; waits until some is released
    sources,  // no source has granted access yet
  };
  PullKey key;
  Wait wait = Wait::none;
  std::uint64_t size_bytes = 0;
  std::uint64_t there_bytes = 0;
  std::vector<NodeId> sources{};  // readable sources, the largest contributor first
  bool sealed = false;            // encrypted on the wire
  Time wanted{};
  std::optional<Time> began{};       // time of the first chunk request
  std::optional<Failure> failure{};  // most recent failure of a source
};
// The pull has ended, no chunk is being written, and its id is no longer valid.
struct PullDone {
  PullId pull = 0;
  PullKey key;
  std::optional<Failure> failure;
  Time wanted{};
  std::vector<PullShare> shares{};
  friend bool operator==(const PullDone&, const PullDone&) = default;
};
using PullCommand = std::variant<BeginPull, RequestSource, ReleaseSource, FetchChunk, CutChunk,
                                 ChunkThere, CompletePull, PullDone>;

}  // namespace mobula::internal::transfer
