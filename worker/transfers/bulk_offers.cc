#include "worker/transfers/bulk_offers.h"

#include "base/mutex.h"

namespace mobula::internal::worker {
namespace {

constexpr Duration idle_right_life = 120s;  // longer than a reader keeps an idle connection

}  // namespace

BulkOffers::Right BulkOffers::add(Time now, std::uint64_t offer, ProcessId reader, bool plain,
                                  BulkSource source) {
  const MutexLock lock(mutex_);
  forget_idle(now);
  const ReaderKey key{reader, plain};
  const auto [at, fresh] = readers_.try_emplace(key);
  Reader& row = at->second;
  if (fresh) {
    row.right.token = random_secret();
    if (!plain) row.right.key = random_secret();
    tokens_.emplace(row.right.token, key);
  }
  row.last_used = now;
  const auto [entry, added] = offers_.try_emplace(offer, Offer{std::move(source), reader});
  if (added) ++row.offers;
  return row.right;
}

void BulkOffers::forget_idle(Time now) {
  for (auto at = readers_.begin(); at != readers_.end();) {
    if (at->second.offers > 0 || now - at->second.last_used < idle_right_life) {
      ++at;
      continue;
    }
    tokens_.erase(at->second.right.token);
    at = readers_.erase(at);
  }
}

void BulkOffers::erase(std::map<std::uint64_t, Offer>::iterator at) {
  for (const bool plain : {false, true}) {
    const auto row = readers_.find({at->second.reader, plain});
    if (row != readers_.end() && row->second.offers > 0) {
      --row->second.offers;
      break;
    }
  }
  offers_.erase(at);
}

bool BulkOffers::withdraw(std::uint64_t offer) {
  const MutexLock lock(mutex_);
  const auto at = offers_.find(offer);
  if (at == offers_.end()) return true;
  at->second.withdrawn = true;
  if (at->second.reading > 0) return false;
  erase(at);
  return true;
}

std::optional<BulkAccess> BulkOffers::access(const BulkToken& token) const {
  const MutexLock lock(mutex_);
  const auto at = tokens_.find(token);
  if (at == tokens_.end()) return std::nullopt;
  return BulkAccess{readers_.at(at->second).right.key, at->second.first.hex()};
}

Result<BulkSource> BulkOffers::begin(const std::string& principal, std::uint64_t offer,
                                     std::uint64_t offset, std::uint64_t size_bytes) {
  const MutexLock lock(mutex_);
  const auto at = offers_.find(offer);
  const bool may =
      at != offers_.end() && !at->second.withdrawn && at->second.reader.hex() == principal;
  if (!may) return failure(ErrorCode::not_found, "the offer has ended");
  const auto bytes = at->second.source.bytes;
  if (offset > bytes.size() || size_bytes > bytes.size() - offset) {
    return failure(ErrorCode::invalid_argument, "a part that the bytes offered do not have");
  }
  ++at->second.reading;
  return BulkSource{
      bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size_bytes)),
      at->second.source.keeps};
}

bool BulkOffers::end(std::uint64_t offer) {
  const MutexLock lock(mutex_);
  const auto at = offers_.find(offer);
  if (at == offers_.end() || --at->second.reading > 0 || !at->second.withdrawn) return false;
  erase(at);
  return true;
}

}  // namespace mobula::internal::worker
