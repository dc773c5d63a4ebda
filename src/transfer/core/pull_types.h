// What is pulled from other nodes, the limits on it, and what a queue of pulls asks of its owner.
// Plain values.
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

using PullId = std::uint64_t;   // 0: none
using AskId = std::uint64_t;    // one question to one node; what PullRequest calls its pull
using ChunkId = std::uint64_t;  // one attempt at one chunk

// An object, or a program file by the hash of its bytes; the other one is empty.
struct PullKey {
  ObjectId object;
  Hash128 file;
  friend auto operator<=>(const PullKey&, const PullKey&) = default;
};

struct PullOptions {
  std::uint64_t chunk_bytes = std::uint64_t{4} << 20;
  std::size_t max_pulls = 16;                       // that have a place, or look for one
  std::uint64_t max_bytes = std::uint64_t{256} << 20;  // asked for and not there yet
  std::size_t chunks_per_source = 8;                // under way from one node, for all pulls
  std::size_t max_sources = 4;                      // that one pull reads from at once
  std::size_t max_waiting = 65536;
  Duration answer_within = 10s;  // to a PullRequest
  Duration chunk_within = 5s;    // plus what is under way from the node, at the least speed
  std::uint64_t least_bytes_per_second = std::uint64_t{4} << 20;
  Duration stalled_within = 10s;  // while nobody has what is missing, and some are getting it
  Duration retry_pause = 50ms;    // after the first failure of a source, doubled for each
  int source_failures = 5;        // in a row: it is given up
  Duration busy_pause = 100ms;
  int busy_rounds = 100;
};

struct PullWish {
  PullKey key{};
  std::uint64_t size_bytes = 0;
  std::vector<NodeId> sources{};  // to be asked in this order
  bool argument = false;          // a call waits for it
  std::uint64_t spread = 0;       // different readers begin with different chunks
};

// What a source has answered, which goes with every request to it.
struct ReadRight {
  std::string token;
  std::string secret;
  std::uint64_t offer = 0;
  friend bool operator==(const ReadRight&, const ReadRight&) = default;
};

// Its turn has come: find room for it, then tell `placed`, `waits_for_room` or `refused`.
struct BeginPull {
  PullId pull = 0;
  PullKey key;
  std::uint64_t size_bytes = 0;
  friend bool operator==(const BeginPull&, const BeginPull&) = default;
};
// Ask `from` for leave to read (PullRequest); tell `answered`.
struct AskSource {
  AskId ask = 0;
  NodeId from;
  PullKey key;
  friend bool operator==(const AskSource&, const AskSource&) = default;
};
// `from` need not keep it for this question any more (PullOver).
struct ReleaseSource {
  AskId ask = 0;
  NodeId from;
  PullKey key;
  friend bool operator==(const ReleaseSource&, const ReleaseSource&) = default;
};
// Read these bytes; tell `fetched`.
struct FetchChunk {
  ChunkId chunk = 0;
  PullId pull = 0;
  NodeId from;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
  ReadRight right;
  friend bool operator==(const FetchChunk&, const FetchChunk&) = default;
};
// Cut it short; `fetched` still follows.
struct CutChunk {
  ChunkId chunk = 0;
  friend bool operator==(const CutChunk&, const CutChunk&) = default;
};
// Others may read this chunk here from now on.
struct ChunkThere {
  PullId pull = 0;
  PullKey key;
  std::uint32_t number = 0;
  friend bool operator==(const ChunkThere&, const ChunkThere&) = default;
};
// All bytes of a file are there: check them, then tell `completed`.
struct CompletePull {
  PullId pull = 0;
  friend bool operator==(const CompletePull&, const CompletePull&) = default;
};
// What one node gave of it, or was asked for in vain.
struct PullShare {
  NodeId from;
  std::uint64_t bytes = 0;
  Time began;  // with the first that was asked for
  Time ended;  // the last that came, or failed
  bool sealed = false;
  friend bool operator==(const PullShare&, const PullShare&) = default;
};
// How far one is that is not over.
struct PullProgress {
  enum class Wait : unsigned char {
    none,
    turn,    // others come first
    placing, // room is looked for
    room,    // there is none, until something goes
    sources, // nobody has given leave to read yet
  };
  PullKey key;
  Wait wait = Wait::none;
  std::uint64_t size_bytes = 0;
  std::uint64_t there_bytes = 0;
  std::vector<NodeId> sources{};  // that may be read from, the one that gave most first
  bool sealed = false;            // what they send
  Time wanted{};
  std::optional<Time> began{};    // when the first chunk was asked for
  std::optional<Failure> failure{};  // of the source that failed last
};
// The pull is over and its number is forgotten; nobody writes any more.
struct PullDone {
  PullId pull = 0;
  PullKey key;
  std::optional<Failure> failure;
  Time wanted{};
  std::vector<PullShare> shares{};
  friend bool operator==(const PullDone&, const PullDone&) = default;
};
using PullCommand = std::variant<BeginPull, AskSource, ReleaseSource, FetchChunk, CutChunk,
                                 ChunkThere, CompletePull, PullDone>;

}  // namespace mobula::internal::transfer
