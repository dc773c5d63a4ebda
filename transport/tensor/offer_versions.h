// A page that a holder shares with its readers. Each offer has a word in the page, its generation,
// which changes when the offer ends. A reader of bytes in place compares the word before and after
// it reads, and so detects that the bytes may have changed.
// Thread: the holder's loop; offer_stands() is for any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/result.h"
#include "transport/tensor/shm/shared_file.h"

namespace mobula::internal {

struct OfferVersion {
  std::uint64_t slot = 0;
  std::uint64_t generation = 0;
};

class OfferVersions {
 public:
  static Result<OfferVersions> create(std::size_t slots);

  // True if all slots are in use; take() then fails a check.
  bool full() const { return free_.empty(); }
  OfferVersion take();
  // Called before a byte of the offer may change.
  void end(const OfferVersion& mark);

  int fd() const { return file_.fd(); }
  std::uint64_t size_bytes() const { return file_.bytes().size(); }

 private:
  SharedFile file_;
  std::vector<std::uint64_t> generations_;  // values in the file; only this object decides them
  std::deque<std::uint64_t> free_;          // least recently used first
};

// For readers: returns true if the offer of `mark` is still valid. `ledger` is a mapping of the
// page. The caller's earlier reads happen before this check. Errors: invalid_argument for a slot
// outside the page.
Result<bool> offer_stands(const ReadMapping& ledger, const OfferVersion& mark);

}  // namespace mobula::internal
