// Encodes consecutive messages into one reused buffer. A buffer that grew above 64 KiB is freed at
// the next message.
// Thread: owner.
#pragma once

#include <cstddef>
#include <utility>

#include "protocol/codec/codec.h"

namespace mobula::internal {

class Encoder {
 public:
  // The bytes stay valid until the next call.
  template <class T>
  const Bytes& operator()(const T& value) {
    if (bytes_.capacity() > most_kept) bytes_ = Bytes();
    Writer out(std::move(bytes_));
    write(out, value);
    bytes_ = out.take();
    return bytes_;
  }

 private:
  static constexpr std::size_t most_kept = 64u << 10;
  Bytes bytes_;
};

}  // namespace mobula::internal
