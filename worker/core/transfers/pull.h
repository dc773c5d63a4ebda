// State of one pull: its chunks, the sources of each chunk, and the state of each source.
// `PullQueue` owns these rows and makes the decisions.
// Thread: owner.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/core/transfers/pull_types.h"

namespace mobula::internal::transfer {

// A node that may have the bytes.
struct Source {
  enum class State : unsigned char {
    known,      // not queried yet
    requested,  // request `request` is pending
    open,       // readable
    busy,       // at its limit of readers; queried again at `due`
    closing,    // given up; its reads are being aborted
    over,
  };
  NodeId node{};
  State state = State::known;
  RequestNumber request = 0;
  ReadRight right{};
  bool partial = false;
  std::vector<bool> there{};  // partial source: chunks that it has
  std::size_t under_way = 0;  // chunks of this pull in transit
  int failures = 0;           // consecutive
  Time failed_at;             // most recent failure; earlier requests fail with it
  int busy_rounds = 0;
  // requested: deadline of the reply; busy, or open after a failure: earliest next request
  std::optional<Time> due{};
  std::optional<Time> began{};  // time of the first chunk request
  Time ended{};                 // time of the last chunk completion or failure
  std::uint64_t bytes = 0;      // received

  bool waits() const { return state == State::requested || state == State::busy; }
};

struct Pull {
  enum class Stage : unsigned char {
    waiting,  // not admitted yet
    placing,  // the owner allocates memory
    parked,   // waits for memory, without counting as admitted
    running,
    finishing,  // complete, being verified
    ending,     // waits until no chunk is being written
  };
  enum class Chunk : unsigned char { missing, under_way, there };

  explicit Pull(ObjectRequest request, std::uint64_t chunk_bytes);

  std::uint64_t offset_of(std::uint32_t number) const { return number * chunk_bytes; }
  std::uint64_t length_of(std::uint32_t number) const;
  bool complete() const { return chunks_there == chunks.size(); }
  bool has(const Source& source, std::uint32_t number) const {
    return !source.partial || (number < source.there.size() && source.there[number]);
  }
  // Chooses the next chunk to read from this source: a chunk of the source that the fewest other
  // sources have, so that rare chunks spread first. Examines a bounded number of chunks.
  std::optional<std::uint32_t> pick(const Source& source);
  void mark(std::uint32_t number, Chunk state);
  void add_source(NodeId node);
  Source* source_of(NodeId node);
  // Contributions of all sources that were read from.
  std::vector<PullShare> shares() const;
  PullProgress progress() const;
  bool counted() const { return stage != Stage::waiting && stage != Stage::parked; }

  PullKey key;
  std::uint64_t size_bytes;
  std::uint64_t chunk_bytes;
  bool argument;
  Stage stage = Stage::waiting;
  int requests = 1;
  std::vector<Source> sources{};
  std::vector<Chunk> chunks;
  std::size_t chunks_there = 0;
  std::size_t under_way = 0;         // chunks in transit, aborted ones included
  std::optional<Failure> failure{};  // most recent failure of a source
  std::optional<Failure> outcome{};  // result of an ending pull
  std::optional<Time> stalled_by{};
  Time wanted{};

 private:
  std::uint32_t at(std::size_t position) const {
    return static_cast<std::uint32_t>((first_ + position) % chunks.size());
  }

  std::size_t first_;         // chunk number at position 0
  std::size_t position_ = 0;  // no chunk before this position is missing
};

}  // namespace mobula::internal::transfer
