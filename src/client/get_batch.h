// Which objects of one `get` are fetched and held at a time: a vector may be larger than the node's store, so it is
// read in batches. Object sizes decide, and the store's reaction: a batch that makes no progress is cut short.
// Thread: any, under the engine's lock. Not: waiting, values.
#pragma once

#include <cstdint>
#include <span>

#include "base/recycled.h"
#include "client/process_engine.h"

namespace mobula::internal::client {

class GetBatch {
 public:
  // Stored bytes that one batch may hold, the first object of the batch excepted.
  static constexpr std::int64_t max_held_bytes = std::int64_t{256} << 20;
  // Objects fetched ahead, after the first unfinished object.
  static constexpr std::size_t max_ahead = 64;

  // With `whole`, all objects are one batch.
  GetBatch(ProcessEngine& engine, std::span<const ObjectId> objects, bool whole);
  ~GetBatch() { release(); }
  GetBatch(const GetBatch&) = delete;
  GetBatch& operator=(const GetBatch&) = delete;

  // Whether the batch is complete: its objects are readable, or their failures known.
  bool complete();
  // The store gives no memory for the next object. Returns true if the batch ends before that object; otherwise
  // objects that were fetched ahead are released.
  bool cut_short();
  // The first objects, in order; valid once complete() or cut_short() is true.
  std::size_t size() const { return size_; }
  // Whether the first size() objects are readable still: one may have been lost since.
  bool all_settled() const;
  void release();

 private:
  bool settled(std::size_t index) const;
  std::int64_t stored_bytes(std::size_t index) const;
  void hold(std::size_t index);
  void drop(std::size_t index);
  void drop_ahead(std::size_t from);
  void fetch_ahead();

  ProcessEngine& engine_;
  const std::span<const ObjectId> objects_;
  const bool whole_;
  RecycledVector<std::uint8_t> held_;  // by index
  std::size_t size_ = 0;   // settled, from the first on
  std::size_t ahead_ = 0;  // no object from here on is held
  std::int64_t bytes_ = 0;  // of settled objects
  std::uint32_t checks_ = 0;
  bool closed_ = false;
};

}  // namespace mobula::internal::client
