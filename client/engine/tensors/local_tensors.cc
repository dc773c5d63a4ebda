#include "client/engine/tensors/local_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/mutex.h"
#include "client/engine/conversion.h"
#include "device/host_identity.h"
#include "tensor/exchange/plugin_files.h"

namespace mobula::internal::client {
namespace {

constexpr std::size_t remembered_failures = 1024;
constexpr std::size_t most_blocks = 1024;
constexpr std::string_view why_sealed_in_place =
    "it was pulled from where it was made, and others may read it there";

// Allocates large tensors where other processes of this machine can map them.
class ArenaMemory final : public detail::TensorMemory {
 public:
  explicit ArenaMemory(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) {}

  Taken take(std::size_t size_bytes) override {
    auto taken = arena_->take(size_bytes);
    if (!taken) return {};
    const auto owner = std::make_shared<ArenaBytes>(std::move(*taken));
    return {owner->bytes().data(), owner};
  }

 private:
  const std::shared_ptr<Arena> arena_;  // shared with the transport that offers it
};

// True if the requested transport allows readers to map the memory.
bool may_be_mapped(const TransportPreference& preference) {
  return !preference.named || *preference.named == DirectPath::shm;
}

void set_share(TransferRecord& record, const exchange::Share& share) {
  record.holder = share.holder;
  record.path = share.path;
  record.size_bytes = static_cast<std::int64_t>(share.bytes);
  record.encrypted = share.encrypted;
}

// Threads that wait until no process reads a tensor check again.
void wake_waits(const std::weak_ptr<ProcessEngine>& of) {
  const auto engine = of.lock();
  if (!engine) return;
  (void)engine->loop().post([of] {
    const auto alive = of.lock();
    if (!alive) return;
    const auto held = alive->lock();
    alive->notify();
  });
}

}  // namespace

// Queue of refs left by destroyed tensors.
struct LocalTensors::Left {
  struct Elements {
    ObjectId object;
    std::shared_ptr<const void> owner;
    bool viewed = false;  // in the store
  };
  Mutex mutex;  // innermost lock
  std::vector<Elements> elements MOBULA_GUARDED_BY(mutex);
};

// True while this thread drains the queue itself, so that the loop is not woken.
thread_local bool takes_back = false;

// Foreign elements that are mapped from their process or from the store. The last tensor over them
// may be destroyed under any lock.
struct LocalTensors::Lease {
  std::weak_ptr<ProcessEngine> engine;
  std::weak_ptr<Left> left;
  Left::Elements elements;

  ~Lease() {
    const auto to = left.lock();
    const auto alive = engine.lock();
    if (!to || !alive) return;
    {
      const MutexLock lock(to->mutex);
      to->elements.push_back(std::move(elements));
      if (to->elements.size() > 1 || takes_back) return;  // the queue is already being drained
    }
    (void)alive->loop().post([engine = engine, left = left] {
      const auto still_alive = engine.lock();
      const auto still_there = left.lock();
      if (!still_alive || !still_there) return;
      auto lock = still_alive->lock();
      take(*still_alive, *still_there, lock);
    });
  }

  static void take(ProcessEngine& engine, Left& left, ProcessEngine::Lock& lock) {
    std::vector<Left::Elements> gone;
    {
      const MutexLock held(left.mutex);
      gone.swap(left.elements);
    }
    if (gone.empty()) return;
    lock.unlock();
    for (auto& each : gone) each.owner.reset();
    lock.lock();
    for (const auto& each : gone) {
      if (each.viewed) engine.unwant(each.object);
      engine.release(each.object);
    }
  }
};

LocalTensors::LocalTensors(std::shared_ptr<ProcessEngine> engine, exchange::ExchangeOptions options)
    : shared_engine_(std::move(engine)),
      engine_(*shared_engine_),
      options_(std::move(options)),
      freed_(std::make_shared<const std::function<void()>>(
          [of = std::weak_ptr(shared_engine_), waits = waits_for_freed_] {
            if (waits->load() > 0) wake_waits(of);
          })),
      left_(std::make_shared<Left>()) {
  if (options_.gpus) set_device_memory(options_.gpus->memory());
  detail::on_landing([this](const detail::Landing& landing) { landed(landing); });
  const auto held = engine_.lock();
  engine_.use_tensors(this);
}

LocalTensors::~LocalTensors() {
  detail::on_landing(nullptr);
  std::unique_ptr<exchange::TensorExchange> ending;
  {
    const auto held = engine_.lock();
    engine_.use_tensors(nullptr);
    ending = std::move(exchange_);
    ending_ = true;
    engine_.notify();
  }
  if (ending) detail::use_tensor_memory(nullptr);
  ending.reset();  // first, because until then it may start the thread that stores
  if (opening_.joinable()) opening_.join();
  if (storing_.joinable()) storing_.join();
}

void LocalTensors::open_devices() {
  if (options_.gpus) (void)options_.gpus->open();  // the paths report the reason of a failure
}

bool LocalTensors::would_open_devices() const {
  return !exchange_ && options_.gpus && !options_.gpus->is_open();
}

Result<void> LocalTensors::prepare() {
  if (exchange_) return {};
  open_devices();
  auto options = options_;
  options.self.node = engine_.core().node();
  options.own_host = exchange::separate_host(options.self.node);
  options.plugins = exchange::plugins_of_environment();
  options.regions.idle_timeout = exchange::idle_of_environment(options.regions.idle_timeout);
  options.may_choose = exchange::may_choose_interface();
  auto started = exchange::TensorExchange::start(
      std::move(options),
      {.completed = [this](exchange::PullResult arrival) { completed(std::move(arrival)); },
       .store =
           [this](ObjectId object, const SourceRegion& elements,
                  std::shared_ptr<const void> owner) {
             const auto held = engine_.lock();
             if (ending_) return;
             const auto device_ordinal =
                 elements.location.on_host()
                     ? std::nullopt
                     : options_.gpus->ordinal_of(to_string(elements.location.device));
             to_store_.push_back({object, elements.bytes,
                                  device_ordinal ? static_cast<int>(*device_ordinal) : on_host,
                                  std::move(owner)});
             if (!storing_.joinable()) storing_ = std::thread([this] { write_to_store(); });
             engine_.notify();
           },
       .woken =
           [this] {
             const auto held = engine_.lock();
             hand_on_counts();
           }});
  if (!started) return started.error();
  exchange_ = std::move(*started);
  if (exchange_->arena())
    detail::use_tensor_memory(std::make_shared<ArenaMemory>(exchange_->arena()));
  return {};
}

Result<std::uint64_t> LocalTensors::claim_turn(std::uint32_t device_ordinal,
                                               std::function<void()> taken) {
  if (ending_) return failure(ErrorCode::unavailable, "the process leaves its cluster");
  if (auto prepared = prepare(); !prepared) return prepared.error();
  exchange_->claim_turn(device_ordinal, ++claims_, std::move(taken));
  return claims_;
}

void LocalTensors::return_turn(std::uint64_t claim) {
  if (exchange_) exchange_->return_turn(claim);
}

void LocalTensors::peers_died(const std::vector<ProcessId>& processes) {
  std::erase_if(blocks_, [&](const auto& each) {
    return std::ranges::find(processes, each.first.first) != processes.end();
  });
  for (const ProcessId each : processes) dead_.remember(each, true);
  if (exchange_) exchange_->dead(processes);
}

// The exchange does not learn again of a process that died before the pull.
void LocalTensors::begin(Early&& pull) {
  std::vector<ProcessId> dead;
  for (const RefRecord& each : pull.tensors) {
    for (const ProcessId holder : {each.owner, each.tensor->holder->process}) {
      if (dead_.contains(holder)) dead.push_back(holder);
    }
  }
  exchange_->pull(pull.request, std::move(pull.tensors), pull.arguments, pull.device);
  if (!dead.empty()) exchange_->dead(std::move(dead));
}

void LocalTensors::head_connected() {
  counts_due_ = !log_.empty();
  hand_on_counts();
}

void LocalTensors::trust(const std::string& ticket, const std::vector<std::string>& revoked_keys) {
  options_.ticket = ticket;
  options_.revoked_keys.add(revoked_keys);
  if (exchange_) exchange_->trust(ticket, revoked_keys);
}

// ---- what it needs -----------------------------------------------------------------------------

detail::ApartTensor LocalTensors::find(ObjectId object) {
  if (const auto own = kept_.find(object); own != kept_.end())
    return {own->second.storage, own->second.byte_offset};
  const auto at = here_.find(object);
  if (at == here_.end()) return {};
  auto storage = at->second.lock();
  if (!storage) here_.erase(at);
  return {std::move(storage), 0};
}

bool LocalTensors::has_made(const RefRecords& tensors) const {
  return std::ranges::all_of(tensors,
                             [&](const RefRecord& each) { return kept_.contains(each.object); });
}

LocalTensors::PullPtr LocalTensors::pull(const RefRecords& tensors, bool arguments,
                                         const std::optional<TransportPreference>& preference,
                                         std::optional<int> device) {
  const auto pull = make_pooled<Pull>();
  RefRecords wanted;
  for (RefRecord ref : tensors) {
    // The caller holds refs to them until they are read.
    if (const auto own = kept_.find(ref.object); own != kept_.end()) {
      pull->got.push_back(own->second.storage);
      continue;
    }
    if (arguments) {
      engine_.add(BorrowRefs{{ref}});
      pull->lent.push_back(ref.object);
    } else {
      engine_.add(AdoptRef{ref});
    }
    pull->held.push_back(ref.object);
    if (auto there = find(ref.object); there.storage) {
      pull->got.push_back(std::move(there.storage));
      continue;
    }
    const bool twice = std::ranges::any_of(
        wanted, [&](const RefRecord& each) { return each.object == ref.object; });
    if (twice) continue;
    if (preference) {
      TensorRecord wished = *ref.tensor;  // the record is shared, also with other threads
      wished.preference = *preference;
      ref.tensor = std::move(wished);
    }
    if (see_in_place(*pull, ref)) continue;
    wanted.push_back(std::move(ref));
  }
  if (wanted.empty()) return pull;
  const bool must_open = would_open_devices();
  if (!must_open) {
    if (auto prepared = prepare(); !prepared) {
      for (const RefRecord& each : wanted) fail(each.object, tensor_error_of(prepared.error()));
      return pull;
    }
  }
  pull->request = ++requests_;
  pull->due = wanted.size();
  pull->wanted = wanted;
  pulls_[pull->request] = pull;
  if (!must_open) {
    begin({pull->request, std::move(wanted), arguments, device});
    return pull;
  }
  early_.push_back({pull->request, std::move(wanted), arguments, device});
  if (!opening_.joinable()) opening_ = std::thread([this] { want_early(); });
  return pull;
}

// Elements in a block that is mapped here need no pull. Their holder keeps them while refs exist.
bool LocalTensors::see_in_place(Pull& pull, const RefRecord& ref) {
  const TensorRecord& record = *ref.tensor;
  if (record.block == 0 || record.size_bytes <= 0 || !may_be_mapped(record.preference))
    return false;
  const auto at = blocks_.find({ref.owner, record.block});
  if (at == blocks_.end()) return false;
  auto mapping = at->second.mapping.lock();
  if (!mapping) {
    blocks_.erase(at);
    return false;
  }
  const auto whole = at->second.bytes;
  const auto size = static_cast<std::size_t>(record.size_bytes);
  if (record.block_offset > whole.size() || size > whole.size() - record.block_offset) return false;
  TransferRecord transfer;
  transfer.path = DirectPath::shm;
  transfer.size_bytes = record.size_bytes;
  transfer.in_place = true;
  transfer.holder = ref.owner;
  transfer.ended = monotonic_now();
  note(std::move(transfer));
  got(pull, ref.object, {.bytes = whole.subspan(record.block_offset, size), .owner = nullptr},
      lease(ref.object, std::move(mapping), false), why_sealed_in_place);
  return true;
}

// Remembers the block if the elements were mapped at the offset that the holder stated. Other
// tensors in the block are then found without a pull.
void LocalTensors::remember_block(const RefRecord& ref, const exchange::Elements& elements) {
  const TensorRecord& record = *ref.tensor;
  const auto whole = elements.file.bytes;
  const auto size = elements.bytes.size();
  if (record.block == 0 || record.block_offset > whole.size() ||
      size > whole.size() - record.block_offset)
    return;
  if (whole.data() + record.block_offset != elements.bytes.data()) return;
  std::erase_if(blocks_, [](const auto& each) { return each.second.mapping.expired(); });
  if (blocks_.size() < most_blocks) blocks_[{ref.owner, record.block}] = elements.file;
}

std::shared_ptr<const void> LocalTensors::lease(ObjectId object,
                                                std::shared_ptr<const void> elements, bool viewed) {
  engine_.caller().add_retain(object);
  auto lease = std::make_shared<Lease>();
  lease->engine = shared_engine_;
  lease->left = left_;
  lease->elements = {object, std::move(elements), viewed};
  return lease;
}

void LocalTensors::take_back(ProcessEngine::Lock& lock) { Lease::take(engine_, *left_, lock); }

void LocalTensors::let_go(PullPtr pull, ProcessEngine::Lock& lock) {
  lock.unlock();
  takes_back = true;
  pull.reset();
  takes_back = false;
  lock.lock();
  take_back(lock);
}

// Runs on its own thread, because opening devices may take long and pull() has the lock.
void LocalTensors::want_early() {
  open_devices();
  const auto held = engine_.lock();
  if (ending_) return;
  const auto prepared = prepare();
  for (Early& each : std::exchange(early_, {})) {
    const auto at = pulls_.find(each.request);
    if (at == pulls_.end()) continue;  // dropped
    if (prepared) {
      begin(std::move(each));
      continue;
    }
    for (const RefRecord& ref : each.tensors) fail(ref.object, tensor_error_of(prepared.error()));
    at->second->due = 0;
  }
  engine_.tensors_changed();
}

namespace {

// The facts of the pull that do not depend on its outcome.
TransferRecord take_record(exchange::PullResult& arrival) {
  TransferRecord record;
  record.object = arrival.object;
  record.path = arrival.path.value_or(DirectPath::store);
  record.ended = monotonic_now();
  record.failed_tries = std::move(arrival.failed_tries);
  record.fell_back = arrival.fell_back;
  record.queued = arrival.queued;
  record.moved = arrival.moved;
  record.holder = arrival.holder;
  record.refusals = std::move(arrival.refusals);
  return record;
}

}  // namespace

void LocalTensors::completed(exchange::PullResult arrival) {
  const auto held = engine_.lock();
  const auto at = pulls_.find(arrival.request);
  if (at == pulls_.end()) return;
  Pull& pull = *at->second;
  --pull.due;
  TransferRecord record = take_record(arrival);
  if (auto* elements = std::get_if<exchange::Elements>(&arrival.outcome)) {
    record.size_bytes = static_cast<std::int64_t>(elements->bytes.size());
    record.in_place = elements->in_place;
    record.encrypted = elements->encrypted;
    const auto ref = std::ranges::find(pull.wanted, arrival.object, &RefRecord::object);
    if (elements->in_place && ref != pull.wanted.end()) remember_block(*ref, *elements);
    auto owner = elements->in_place ? lease(arrival.object, std::move(elements->owner), false)
                                    : std::move(elements->owner);
    got(pull, arrival.object, *elements, std::move(owner), why_sealed_in_place);
    // A pull from several holders is logged as one transfer from each.
    for (std::size_t i = 1; i < arrival.shares.size(); ++i) {
      TransferRecord other = record;
      other.refusals.clear();
      other.failed_tries.clear();
      other.fell_back = false;
      set_share(other, arrival.shares[i]);
      note(std::move(other));
    }
    if (!arrival.shares.empty()) set_share(record, arrival.shares.front());
    note(std::move(record));
  } else if (std::holds_alternative<exchange::InStore>(arrival.outcome)) {
    const auto* row = engine_.core().object(arrival.object);
    if (row != nullptr) {
      pull.in_store.push_back(engine_.core().ref_of(arrival.object));
      pull.records.insert_or_assign(arrival.object, std::move(record));
      engine_.want(arrival.object);
    }
  } else {
    const Failure& why = std::get<Failure>(arrival.outcome);
    const std::string reasons = fmt::format("{}", fmt::join(record.refusals, "; "));
    detail::ErrorRecord error = make_error(
        ErrorKind::transfer,
        fmt::format("a tensor could not be brought here from process {}: {}{}{}; allow_fallback "
                    "lets other paths be tried",
                    arrival.holder.brief(), why.text, reasons.empty() ? "" : ": ", reasons));
    error.cause = reasons.empty() ? why.text : reasons;
    error.reason = error.cause;
    // A rejection reason begins with its path.
    if (!record.failed_tries.empty()) {
      error.path = to_string(record.failed_tries.back());
    } else if (!record.refusals.empty()) {
      error.path = record.refusals.front().substr(0, record.refusals.front().find(':'));
    }
    fail(arrival.object, std::move(error));
    record.failed = true;
    if (!record.failed_tries.empty()) record.path = record.failed_tries.back();
    if (record.refusals.empty()) record.refusals.push_back(why.text);
    note(std::move(record));
  }
  engine_.tensors_changed();
}

const detail::ErrorRecord* LocalTensors::why_missing(ObjectId object) const {
  const auto at = failed_.find(object);
  return at == failed_.end() ? nullptr : &at->second;
}

void LocalTensors::fail(ObjectId object, detail::ErrorRecord error) {
  if (failed_.size() >= remembered_failures) failed_.erase(failed_.begin());
  failed_[object] = std::move(error);
}

void LocalTensors::got(Pull& pull, ObjectId object, const exchange::Elements& elements,
                       std::shared_ptr<const void> owner, std::string_view why_sealed) {
  failed_.erase(object);
  // another pull completed first
  if (auto known = here_[object].lock()) return pull.got.push_back(std::move(known));
  auto* first = const_cast<std::byte*>(elements.bytes.data());  // the seal prevents writes
  const Device device =
      elements.device == on_host ? Device() : Device{Device::cuda, elements.device};
  auto storage = std::make_shared<detail::TensorStorage>(first, elements.bytes.size(), device,
                                                         std::move(owner), why_sealed);
  here_[object] = storage;
  pull.got.push_back(std::move(storage));
  std::erase_if(here_, [](const auto& each) { return each.second.expired(); });
}

bool LocalTensors::ready(Pull& pull) {
  if (pull.due > 0) return false;
  const bool settled = std::ranges::all_of(
      pull.in_store, [&](const RefRecord& each) { return engine_.core().settled(each.object); });
  if (!settled) return false;
  for (const RefRecord& each : std::exchange(pull.in_store, {})) take_from_store(pull, each);
  pulls_.erase(pull.request);
  return true;
}

void LocalTensors::drop(const PullPtr& pull) {
  for (const ObjectId each : std::exchange(pull->held, {})) engine_.caller().add_release(each);
  if (pull->request == 0 || pulls_.erase(pull->request) == 0) return;
  if (pull->due > 0 && exchange_) exchange_->cancel(pull->request);
  for (const RefRecord& each : std::exchange(pull->in_store, {}))
    engine_.caller().add_unwant(each.object);
}

}  // namespace mobula::internal::client
