// Words between two members: short frames over a connection of their own, beside the wire for bytes, so that
// what ends an operation is heard whatever is under way there. Non-blocking, for the thread that carries out an
// operation. Sealed where the wire is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "collective/core/word.h"
#include "collective/wire.h"

namespace mobula::internal::collective {

class Words {
 public:
  Words(Fd socket, const WireKeys& keys);

  // Queued, and sent as far as that goes now.
  Result<void> say(const Word& word);
  Result<void> flush();
  bool flushed() const { return out_.empty(); }
  // The next word that is there whole. unavailable at the end of the stream, corrupt for what no member says.
  Result<std::optional<Word>> hear();
  // Nothing more is said; the other end hears what was, and then the end.
  void finish();
  int descriptor() const { return socket_.get(); }

 private:
  Fd socket_;
  std::unique_ptr<Sealer> sealer_;
  std::unique_ptr<Opener> opener_;
  std::deque<std::vector<std::byte>> out_;
  std::size_t sent_ = 0;  // of the first
  std::vector<std::byte> in_;
  std::size_t filled_ = 0;
};

}  // namespace mobula::internal::collective
