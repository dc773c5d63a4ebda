// Selects the objects of one `get` that are fetched and held at a time. A vector may be larger than
// the node's store, so it is read in batches. Object sizes limit a batch, and a batch without
// progress is cut short.
// Thread: any, under the engine's lock.
// Not: waiting, values.
#pragma once

#include <cstdint>
#include <span>

#include "base/containers/block_pool.h"
#include "client/engine/conversion.h"
#include "client/engine/process_engine.h"

namespace mobula::internal::client {

class GetBatch {
 public:
  // Stored bytes that one batch may hold, not counting its first object.
  static constexpr std::int64_t max_held_bytes = std::int64_t{256} << 20;
  // Objects fetched ahead, after the first unfinished object.
  static constexpr std::size_t max_ahead = 64;

  // With `whole`, all objects are one batch.
  GetBatch(ProcessEngine& engine, std::span<const detail::RawId> objects, bool whole);
  ~GetBatch() { release(); }
  GetBatch(const GetBatch&) = delete;
  GetBatch& operator=(const GetBatch&) = delete;

  // True if the batch is complete: its objects are readable, or their failures known.
  bool complete();
  // The store has no memory for the next object. Returns true if the batch ends before that object.
  // Otherwise releases the objects that were fetched ahead.
  bool cut_short();
  // Number of leading objects in the batch. Valid once complete() or cut_short() is true.
  std::size_t size() const { return size_; }
  // True if the first size() objects are still readable: one may have been lost since.
  bool all_settled() const;
  void release();

 private:
  ObjectId object(std::size_t index) const { return ObjectId(bits(objects_[index])); }
  const ObjectRow* row(std::size_t index) const { return engine_.core().object(object(index)); }
  void hold(std::size_t index);
  void drop(std::size_t index);
  void drop_ahead(std::size_t from);
  void fetch_ahead();

  ProcessEngine& engine_;
  const std::span<const detail::RawId> objects_;
  const bool whole_;
  PooledVector<std::uint8_t> held_;  // by index
  std::size_t size_ = 0;             // count of settled leading objects
  std::size_t ahead_ = 0;            // first index from which no object is held
  std::int64_t bytes_ = 0;           // bytes of settled objects
  std::uint32_t checks_ = 0;
  bool closed_ = false;
};

}  // namespace mobula::internal::client
