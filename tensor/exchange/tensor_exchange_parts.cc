// Pulls of large tensors in chunks: into one allocation, from each process that has a chunk.
// Received chunks are offered to other readers while a tensor uses the allocation.
#include <algorithm>
#include <utility>

#include "tensor/exchange/core/tensor_chunks.h"
#include "tensor/exchange/tensor_exchange.h"

namespace mobula::internal::exchange {
namespace {

constexpr std::size_t max_chunks_of_request = 4096;  // beyond it tensors are pulled whole
constexpr std::size_t max_where = 4096;              // remembered endpoints of replica holders

bool is_by_network(DirectPath path) { return path == DirectPath::tcp || is_of_plugin(path); }

}  // namespace

// ---- pull ---------------------------------------------------------------------------------------

bool TensorExchange::is_chunked(const Wanted& wanted, const std::vector<DirectPath>& paths) const {
  const TensorRecord& record = *wanted.ref.tensor;
  const std::uint64_t chunk_bytes = options_.regions.chunk_bytes;
  const bool on_hosts = record.device.empty() && wanted.device == on_host;
  return chunk_bytes > 0 && on_hosts &&
         static_cast<std::uint64_t>(record.size_bytes) >= 2 * chunk_bytes &&
         is_by_network(paths.front()) && std::ranges::none_of(paths, is_two_sided) &&
         paths_->capabilities_of(wanted.ref.owner)->chunk_bytes == chunk_bytes;
}

bool TensorExchange::add_parts(std::uint64_t request, const Wanted& whole,
                               const transfer::TensorRequest& one,
                               std::vector<transfer::TensorRequest>& together,
                               std::vector<Wanted>& wanted) {
  const auto parts = transfer::parts_of(one.size_bytes, options_.regions.chunk_bytes);
  if (together.size() + parts > max_chunks_of_request) return false;
  const std::uint64_t number = ++last_gathering_;
  Gathering& gathering = gatherings_[number];
  gathering.request = request;
  gathering.whole = whole;
  gathering.began = monotonic_now();
  gathering.keeps = !self_->address.empty() && !registered_.contains(one.object);
  if (gathering.keeps) registered_[one.object].copy = number;
  Wanted part = whole;
  part.refusals.clear();
  part.gathering = number;
  for (const auto each : transfer::order_of_parts(parts, options_.self.process)) {
    auto& of_chunk = together.emplace_back(one);
    of_chunk.part = part.part = each;
    of_chunk.keeps = gathering.keeps;
    wanted.push_back(part);
  }
  return true;
}

// Destination of a chunk; the first call allocates memory for the whole tensor.
Result<std::span<std::byte>> TensorExchange::memory_of(const Wanted& wanted) {
  Gathering& gathering = gatherings_.at(wanted.gathering);
  const auto size = static_cast<std::uint64_t>(wanted.ref.tensor->size_bytes);
  if (!gathering.memory) {
    auto taken = paths_->receive_buffer(size);
    if (!taken) return taken.error();
    gathering.memory = std::make_shared<const ReceiveBuffer>(std::move(*taken));
    const auto at = registered_.find(wanted.ref.object);
    if (at != registered_.end() && at->second.copy == wanted.gathering) {
      at->second.elements.bytes = gathering.memory->bytes();
      at->second.memory = gathering.memory;
    }
  }
  const auto span = transfer::span_of(size, options_.regions.chunk_bytes, wanted.part);
  return gathering.memory->bytes().subspan(span.offset, span.size_bytes);
}

void TensorExchange::chunk_ended(const transfer::PullEnded& command, std::uint64_t number) {
  Gathering& gathering = gatherings_.at(number);
  const auto part = gathering.parts.extract(command.pull).mapped();
  const RefRecord& ref = gathering.whole.ref;
  for (const auto& attempt : command.attempts) {
    if (attempt.refusal.empty()) {
      auto& share = gathering.shares[{attempt.holder, attempt.path}];
      const auto size = static_cast<std::uint64_t>(ref.tensor->size_bytes);
      share.holder = attempt.holder;
      share.path = attempt.path;
      share.encrypted = share.encrypted && gathering.encrypted[command.pull];
      const auto came = transfer::span_of(size, options_.regions.chunk_bytes, part).size_bytes;
      share.bytes += came;
      progress_.more(gathering.request, ref.object, came);
      continue;
    }
    // A replica holder that evicted its chunks or never replied is no failure of the path.
    const bool of_owner = attempt.holder == ref.owner;
    auto& tried = of_owner ? gathering.tries : gathering.replica_holders_tried;
    const std::pair text(
        attempt.path,
        of_owner ? attempt.refusal : "from " + attempt.holder.brief() + ": " + attempt.refusal);
    if (tried.size() < max_tries_reported && std::ranges::find(tried, text) == tried.end())
      tried.push_back(text);
  }
  gathering.queued = std::min(gathering.queued.value_or(command.queued), command.queued);
  const bool came = std::holds_alternative<transfer::RegionsHere>(command.outcome);
  if (!came && !gathering.failed) {
    gathering.failed = command.outcome;
    // The other chunks are useless now; each of them ends after this one.
    for (const auto& other : std::map(gathering.parts)) {
      step([&](Time now, auto& out) { core_.cancel(now, other.first, out); });
    }
  }
  if (!gathering.parts.empty()) return;
  const auto ended = gatherings_.extract(number);
  gathered(number, ended.mapped());
}

void TensorExchange::gathered(std::uint64_t number, const Gathering& gathering) {
  const Wanted& whole = gathering.whole;
  const bool came = !gathering.failed;
  const auto request = requests_.find(gathering.request);
  if (!came || request == requests_.end()) withdraw(whole.ref.object, number);
  if (request == requests_.end()) return;  // cancelled
  PullResult arrival{.request = gathering.request,
                     .object = whole.ref.object,
                     .outcome = InStore{},
                     .path = {},
                     .holder = whole.ref.owner,
                     .refusals = {},
                     .failed_tries = {},
                     .fell_back = false,
                     .queued = gathering.queued.value_or(Duration(0))};
  arrival.moved =
      std::max<Duration>(monotonic_now() - gathering.began - arrival.queued, Duration(0));
  std::uint64_t most = 0;
  bool encrypted = true;
  for (const auto& [from, share] : gathering.shares) {
    if (came) arrival.shares.push_back(share);
    if (share.bytes > most) arrival.path = share.path;
    most = std::max(most, share.bytes);
    encrypted = encrypted && share.encrypted;
  }
  if (!came) arrival.path.reset();
  for (const auto& [path, why] : gathering.replica_holders_tried)
    arrival.refusals.push_back(text_of(path, why));
  for (const auto& [path, why] : gathering.tries) {
    arrival.refusals.push_back(text_of(path, why));
    arrival.failed_tries.push_back(path);
  }
  report_rejections(whole, arrival);
  if (came) {
    auto owner = std::make_shared<const RetainedBuffer>(gathering.memory, whole.ref.object, number,
                                                        withdrawals_);
    arrival.outcome =
        Elements{gathering.memory->bytes(), std::move(owner), false, encrypted, {}, on_host};
  } else if (gathering.failed && std::holds_alternative<Failure>(*gathering.failed)) {
    arrival.outcome = std::get<Failure>(*gathering.failed);
  }
  arrive(std::move(arrival));
}

// ---- relay --------------------------------------------------------------------------------------

void TensorExchange::withdraw(ObjectId object, std::uint64_t copy) {
  const auto at = registered_.find(object);
  if (at == registered_.end() || at->second.copy != copy) return;  // not relayed
  at->second.retired = true;
  step([&](Time now, auto& out) { core_.unregister(now, object, out); });
  // Active offers keep the memory until they end.
  const auto still = registered_.find(object);
  if (still != registered_.end() && still->second.copy == copy && !core_.has(object))
    registered_.erase(still);
}

// ---- replica holders ----------------------------------------------------------------------------

// Adds the endpoint of each replica holder to a redirect. A process that never sent its endpoint is
// not named to others.
RegionMessage TensorExchange::with_locations(RegionMessage message) const {
  auto* refused = std::get_if<PullTensorRejected>(&message);
  if (refused == nullptr || refused->others.empty()) return message;
  std::erase_if(refused->others, [&](ProcessId each) {
    const TransportCapabilities* reach = paths_->capabilities_of(each);
    if (reach == nullptr || reach->self.process != each) return true;
    refused->where.push_back(reach->self);
    return false;
  });
  return message;
}

void TensorExchange::learn_locations(const RegionMessage& message) {
  const auto* refused = std::get_if<PullTensorRejected>(&message);
  if (refused == nullptr) return;
  for (const Endpoint& each : refused->where) {
    if (std::ranges::find(refused->others, each.process) == refused->others.end()) continue;
    if (where_.size() >= max_where && !where_.contains(each.process)) where_.erase(where_.begin());
    where_[each.process] = each;
  }
}

void TensorExchange::carry_out(const transfer::Reach& command) {
  const auto where = where_.find(command.replica_holder);
  if (where == where_.end() || where->second.public_key.empty()) return answer_reach(command);
  links_->meet(where->second, true);
  if (paths_->knows(command.replica_holder)) return answer_reach(command);
  reaching_.push_back(command);  // at most one per pull
}

// Chooses the path again, because a replica holder can be on another host or fabric than the
// holder.
void TensorExchange::answer_reach(const transfer::Reach& command) {
  std::vector<DirectPath> paths;
  const auto pull = pulls_.find(command.pull);
  const auto gathering =
      pull == pulls_.end() ? gatherings_.end() : gatherings_.find(pull->second.gathering);
  if (gathering != gatherings_.end() && paths_->knows(command.replica_holder)) {
    TensorRecord record = *gathering->second.whole.ref.tensor;
    record.in_shared_memory = false;  // a replica is in a receive buffer
    paths = paths_->choose(command.replica_holder, record, on_host).paths;
  }
  step([&](Time now, auto& out) {
    core_.reached(now, command.pull, command.replica_holder, std::move(paths), out);
  });
}

void TensorExchange::reached_or_not(ProcessId replica_holder) {
  std::vector<transfer::Reach> answered;
  std::erase_if(reaching_, [&](const transfer::Reach& each) {
    const bool is_of = each.replica_holder == replica_holder;
    if (is_of) answered.push_back(each);
    return is_of;
  });
  for (const auto& each : answered) answer_reach(each);
}

}  // namespace mobula::internal::exchange
