// A page that a holder shares with its readers, in which each offer has a word: its generation,
// which changes when the offer ends. Who reads an offer's bytes in place looks at the word before
// and after: a reader that was stopped meanwhile learns that what it read may be something else.
// For the holder's loop; the reading side is a function for any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/result.h"
#include "transport/direct/shared_file.h"

namespace mobula::internal {

struct OfferMark {
  std::uint64_t slot = 0;
  std::uint64_t generation = 0;
};

class OfferLedger {
 public:
  static Result<OfferLedger> create(std::size_t slots);

  // Nothing while all slots are taken.
  bool full() const { return free_.empty(); }
  OfferMark take();
  // Before a byte of the offer may change.
  void end(const OfferMark& mark);

  int fd() const { return file_.fd(); }
  std::uint64_t size_bytes() const { return file_.bytes().size(); }

 private:
  SharedFile file_;
  std::vector<std::uint64_t> generations_;  // what the file says, which nobody else may decide
  std::deque<std::uint64_t> free_;          // the longest unused first
};

// What a reader sees: whether the offer of `mark` stands, in the ledger's mapping. invalid_argument
// for a slot outside. What was read before is ordered before this look.
Result<bool> offer_stands(const ReadMapping& ledger, const OfferMark& mark);

}  // namespace mobula::internal
