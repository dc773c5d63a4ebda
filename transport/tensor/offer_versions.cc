#include "transport/tensor/offer_versions.h"

#include <fmt/format.h>

#include <atomic>

namespace mobula::internal {
namespace {

// The thread sanitizer does not support fences, and g++ warns about them. This fence orders
// accesses of different processes, which the sanitizer cannot see anyway.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
void full_fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

std::atomic_ref<std::uint64_t> word(std::span<const std::byte> bytes, std::uint64_t slot) {
  static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);
  auto* const at = const_cast<std::byte*>(bytes.data()) + slot * sizeof(std::uint64_t);
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(at));
}

}  // namespace

Result<OfferVersions> OfferVersions::create(std::size_t slots) {
  auto file = SharedFile::create(slots * sizeof(std::uint64_t), "mobula-offers");
  if (!file) return file.error();
  OfferVersions made;
  made.file_ = std::move(file).value();
  made.generations_.assign(slots, 0);
  for (std::uint64_t slot = 0; slot < slots; ++slot) made.free_.push_back(slot);
  return made;
}

OfferVersion OfferVersions::take() {
  MOBULA_CHECK(!free_.empty(), "a free slot of the ledger");
  const std::uint64_t slot = free_.front();
  free_.pop_front();
  return {slot, generations_[slot]};
}

void OfferVersions::end(const OfferVersion& mark) {
  MOBULA_CHECK(generations_.at(mark.slot) == mark.generation, "an offer ends once");
  const std::uint64_t next = ++generations_[mark.slot];
  word(file_.bytes(), mark.slot).store(next, std::memory_order_relaxed);
  // Later writes to the bytes of the offer are ordered after the word, for readers that check the
  // word after their reads.
  full_fence();
  free_.push_back(mark.slot);
}

Result<bool> offer_stands(const ReadMapping& ledger, const OfferVersion& mark) {
  if (mark.slot >= ledger.bytes().size() / sizeof(std::uint64_t)) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("slot {} is outside the ledger of a holder", mark.slot));
  }
  full_fence();
  return word(ledger.bytes(), mark.slot).load(std::memory_order_relaxed) == mark.generation;
}

}  // namespace mobula::internal
