// Reads and writes msgpack as JSON.
// Thread: any (pure functions).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "client/console/neutral_parts.h"

namespace mobula::internal::runtime::console {

// Reports whether the bytes are one msgpack value with text keys and at most 512 levels. Without
// `with_binary`, it must not have binary parts, which have no JSON text. It may have `parts`.
bool has_json(std::span<const std::byte> bytes, bool with_binary, const NeutralParts& parts = {});

// The JSON of one msgpack value, with binary parts and `parts`. Errors: corrupt.
Result<Json> json_of_msgpack(std::span<const std::byte> bytes, const NeutralParts& parts = {});

// The msgpack of a JSON value. Scalars take no heap.
class JsonMsgpack {
 public:
  explicit JsonMsgpack(const Json& json) { write(json); }
  JsonMsgpack(const JsonMsgpack&) = delete;
  JsonMsgpack& operator=(const JsonMsgpack&) = delete;

  std::span<const std::byte> bytes() const {
    return near_size_ == 0 ? std::as_bytes(std::span(far_)) : std::span(near_.data(), near_size_);
  }

 private:
  void write(const Json& json);
  void put(unsigned mark, std::uint64_t value, std::size_t width);

  std::array<std::byte, 9> near_ = {};
  std::size_t near_size_ = 0;
  std::vector<std::uint8_t> far_;  // used if `near_size_` is 0
};

}  // namespace mobula::internal::runtime::console
