#include "transport/tensor/tcp/tcp_offers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/mutex.h"

namespace mobula::internal {
namespace {

// Splits an access token: one half identifies it, the other half proves it.
std::pair<DirectToken, DirectToken> halves(const BulkToken& token) {
  BlobReader from(token);
  const DirectToken name = from.token();
  return {name, from.token()};
}

}  // namespace

Result<TcpRight> TcpOffers::right_of(const ChannelKey& receiver, bool sealed) {
  const MutexLock lock(mutex_);
  const auto at = rights_.find(receiver.peer);
  if (at != rights_.end()) {
    if (receiver.epoch < at->second.to.epoch) {
      return failure(ErrorCode::permission_denied,
                     fmt::format("an offer of epoch {} to process {}, which is at {}",
                                 receiver.epoch, receiver.peer.brief(), at->second.to.epoch));
    }
    if (receiver.epoch == at->second.to.epoch && at->second.right.key.has_value() == sealed) {
      return at->second.right;
    }
  } else if (rights_.size() >= limits_.max_channels) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("{} processes may read here, which is the limit", rights_.size()));
  }
  Right made{receiver, next_right_++, {random_secret(), std::nullopt}};
  if (sealed) made.right.key = random_secret();
  rights_[receiver.peer] = made;
  return made.right;
}

Result<void> TcpOffers::add(TransferId transfer, const ChannelKey& to, const DirectToken& token,
                            std::vector<SourceRegion> regions, std::shared_ptr<ChunkStage> stage) {
  const MutexLock lock(mutex_);
  if (rows_.contains(transfer)) {
    return failure(ErrorCode::already_exists, "the transfer is offered already");
  }
  if (rows_.size() >= limits_.max_offers) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("{} offers stand, which is the limit", rows_.size()));
  }
  auto row = std::make_shared<Row>();
  row->to = to;
  row->right = rights_.at(to.peer).number;
  row->token = token;
  row->regions = std::move(regions);
  row->stage = std::move(stage);
  rows_.emplace(transfer, std::move(row));
  return {};
}

void TcpOffers::release(TransferId transfer, std::function<void()> quiet) {
  {
    const MutexLock lock(mutex_);
    const auto at = rows_.find(transfer);
    if (at != rows_.end()) {
      const auto row = at->second;
      rows_.erase(at);
      row->ended = true;
      if (row->readers > 0) {
        row->quiet = std::move(quiet);
        return;
      }
    }
  }
  if (quiet) quiet();
}

std::vector<TransferId> TcpOffers::of(const ProcessId* peer) const {
  const MutexLock lock(mutex_);
  std::vector<TransferId> ids;
  for (const auto& [transfer, row] : rows_) {
    if (peer == nullptr || row->to.peer == *peer) ids.push_back(transfer);
  }
  return ids;
}

void TcpOffers::end_right(const ProcessId* peer) {
  const MutexLock lock(mutex_);
  if (peer == nullptr) return rights_.clear();
  rights_.erase(*peer);
}

std::size_t TcpOffers::size() const {
  const MutexLock lock(mutex_);
  return rows_.size();
}

std::optional<BulkAccess> TcpOffers::access(const BulkToken& token) const {
  const auto [name, proof] = halves(token);
  const MutexLock lock(mutex_);
  for (const auto& [peer, right] : rights_) {
    const auto [own_name, own_proof] = halves(right.right.token);
    if (!own_name.matches(name) || !own_proof.matches(proof)) continue;
    return BulkAccess{right.right.key, fmt::format("{}", right.number)};
  }
  return std::nullopt;
}

Result<OfferedChunk> TcpOffers::find(const std::string& principal,
                                     std::span<const std::byte> request) {
  const auto decoded = TcpRequest::decode(request);
  if (!decoded) return decoded.error();
  const TcpChunk& chunk = decoded->chunk;
  const MutexLock lock(mutex_);
  const auto at = rows_.find(decoded->transfer);
  if (at == rows_.end()) return failure(ErrorCode::not_found, "the offer has been released");
  const auto row = at->second;
  const auto right = rights_.find(row->to.peer);
  const bool current = right != rights_.end() && right->second.number == row->right &&
                       fmt::format("{}", row->right) == principal;
  if (!current || !row->token.matches(decoded->token)) {
    return failure(ErrorCode::permission_denied,
                   "the offer is to another process, or of an old epoch");
  }
  OfferedChunk made{};
  if (chunk.size > 0) {
    const std::uint64_t whole =
        chunk.region < row->regions.size() ? row->regions[chunk.region].bytes.size() : 0;
    if (chunk.offset > whole || chunk.size > whole - chunk.offset) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("bytes {}+{} of region {}, which has {}", chunk.offset, chunk.size,
                                 chunk.region, whole));
    }
    const SourceRegion& region = row->regions[chunk.region];
    made.bytes = region.bytes.subspan(chunk.offset, chunk.size);
    if (!region.location.on_host()) {
      made.stage = row->stage;
      made.wanted = [row] { return !row->ended; };
    }
  }
  ++row->readers;
  // The use ends after the chunk that it covers.
  auto use = made.stage ? uses_.begin() : nullptr;
  made.hold = {row.get(), [this, row, use = std::move(use)](const void*) { done(row); }};
  return made;
}

Result<BulkBody> TcpOffers::read(const std::string& principal, std::span<const std::byte> request) {
  auto chunk = find(principal, request);
  if (!chunk) return chunk.error();
  return BulkBody{chunk->bytes, [hold = std::move(chunk->hold)]() mutable { hold.reset(); }};
}

void TcpOffers::end_stages() {
  {
    const MutexLock lock(mutex_);
    for (const auto& [transfer, row] : rows_) row->ended = true;
  }
  uses_.wait();
}

void TcpOffers::done(const std::shared_ptr<Row>& row) {
  std::function<void()> quiet;
  {
    const MutexLock lock(mutex_);
    if (--row->readers == 0) quiet = std::exchange(row->quiet, nullptr);
  }
  if (quiet) quiet();
}

}  // namespace mobula::internal
