// One pull: its chunks, where each is to be had, and what is known of the nodes that may have them.
// The rows of a PullQueue, which decides; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transfer/core/pull_types.h"

namespace mobula::internal::transfer {

// A node that may have the bytes.
struct Source {
  enum class State : unsigned char {
    known,    // to be asked
    asked,    // by `ask`
    open,     // may be read from
    busy,     // has no room for readers now: asked again at `due`
    closing,  // not any more; what was asked for is being cut
    over,
  };
  NodeId node{};
  State state = State::known;
  AskId ask = 0;
  ReadRight right{};
  bool partial = false;
  std::vector<bool> there{};    // partial: which chunks
  std::size_t under_way = 0;    // chunks of this pull
  int failures = 0;             // in a row
  Time failed_at;               // the latest of them: what was asked for before fails with it
  int busy_rounds = 0;
  std::optional<Time> due{};    // asked: by then; busy, or open after a failure: not before
  std::optional<Time> began{};  // when the first chunk was asked for
  Time ended{};                 // of chunks: when the last came, or failed
  std::uint64_t bytes = 0;      // that came

  bool waits() const { return state == State::asked || state == State::busy; }
};

struct Pull {
  enum class Stage : unsigned char {
    waiting,    // for its turn
    placing,    // its owner looks for room
    parked,     // and will have it later
    running,
    finishing,  // all is there, and is being checked
    ending,     // waits until nobody writes any more
  };
  enum class Chunk : unsigned char { missing, under_way, there };

  explicit Pull(PullWish wish, std::uint64_t chunk_bytes);

  std::uint64_t offset_of(std::uint32_t number) const { return number * chunk_bytes; }
  std::uint64_t length_of(std::uint32_t number) const;
  bool complete() const { return chunks_there == chunks.size(); }
  bool has(const Source& source, std::uint32_t number) const {
    return !source.partial || (number < source.there.size() && source.there[number]);
  }
  // The chunk to read from this source next: of those that it has the one that the fewest others
  // have, so that what only one node has spreads first. Looks at a bounded number of them.
  std::optional<std::uint32_t> pick(const Source& source);
  void mark(std::uint32_t number, Chunk state);
  void add_source(NodeId node);
  Source* source_of(NodeId node);
  // Of all that were read from.
  std::vector<PullShare> shares() const;
  PullProgress progress() const;
  bool counted() const { return stage != Stage::waiting && stage != Stage::parked; }

  PullKey key;
  std::uint64_t size_bytes;
  std::uint64_t chunk_bytes;
  bool argument;
  Stage stage = Stage::waiting;
  int wishes = 1;
  std::vector<Source> sources{};
  std::vector<Chunk> chunks;
  std::size_t chunks_there = 0;
  std::size_t under_way = 0;  // chunks, those that are being cut too
  std::optional<Failure> failure{};  // of the source that failed last
  std::optional<Failure> outcome{};  // ending: with this
  std::optional<Time> stalled_by{};
  Time wanted{};

 private:
  std::uint32_t at(std::size_t position) const {
    return static_cast<std::uint32_t>((first_ + position) % chunks.size());
  }

  std::size_t first_;         // chunk number at position 0
  std::size_t position_ = 0;  // before it nothing is missing
};

}  // namespace mobula::internal::transfer
