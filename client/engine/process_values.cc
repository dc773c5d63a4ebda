#include "client/engine/process_values.h"

#include <algorithm>
#include <utility>

#include "base/model/tensor_refs.h"
#include "client/api/completion/interruption.h"
#include "client/engine/conversion.h"
#include "tensor/origins.h"

namespace mobula::internal::client {
namespace {

using detail::Answer;
using detail::ContainedRef;
using detail::Origins;
using detail::RefKind;

// Smaller tensors are copied into their value. In values sent by message this applies to tensors
// that cannot be mapped by readers, because a pull would take longer.
constexpr std::size_t least_apart_bytes = 4096;
constexpr std::size_t least_apart_of_small = detail::TensorMemory::least_bytes;

// Keeps a value's bytes and its refs while user code can access the value.
struct ValueLease {
  std::weak_ptr<ProcessEngine> engine;
  Payload payload;
  std::optional<SlabView> view;
  ObjectId viewed{};
  std::vector<ContainedRef> held;

  ~ValueLease() {
    const auto alive = engine.lock();
    if (!alive) return;
    view.reset();
    if (viewed.empty() && held.empty()) return;
    const auto lock = alive->lock();
    if (!viewed.empty()) alive->unwant(viewed);
    for (const auto& ref : held) alive->release(counted_object(ref));
  }
};

// A snapshot is not the memory that it was made from.
Origins origins_of(ElementSharing sharing) {
  if (sharing == ElementSharing::snapshot) return Origins::unrecorded;
  return sharing == ElementSharing::alias ? Origins::aliased : Origins::recorded;
}

bool is_tensor(const RefRecord& record) { return !record.tensor.is_empty(); }

std::vector<ContainedRef> contained_of(const RefRecords& records) {
  std::vector<ContainedRef> refs;
  refs.reserve(records.size());
  for (const auto& record : records) {
    if (is_tensor(record)) {
      refs.push_back({RefKind::tensor, raw(record.object.bits())});
    } else if (record.actor.empty()) {
      refs.push_back({RefKind::object, raw(record.object.bits())});
    } else {
      refs.push_back({RefKind::actor, raw(record.actor.bits())});
    }
  }
  return refs;
}

// Refs held while user code sees the value. Tensor elements have separate leases.
std::vector<ContainedRef> held_of(std::vector<ContainedRef> refs) {
  std::erase_if(refs, [](const ContainedRef& each) { return each.kind == RefKind::tensor; });
  return refs;
}

}  // namespace

// ---- values ------------------------------------------------------------------------------------

// Registers the tensors of a value whose transport is direct. Elements that readers should pull are
// omitted from the written value; each such tensor has one ref. All tensors that the value contains
// share one further ref, the last, which keeps their memory unchanged by the policy. The caller
// releases the refs once the value has its own.
Result<RefRecords> ProcessValues::keep_tensors(const detail::Outgoing& value,
                                               const TransportPreference& preference) {
  RefRecords kept;
  if (!preference.direct) return kept;
  PooledVector<detail::IncludedTensor> included;
  if (auto apart = keep_apart(value, preference, kept, included); !apart) {
    release_kept(kept);
    return apart.error();
  }
  if (included.empty()) return kept;
  const auto lock = engine_->lock();
  kept.push_back(tensors_.freeze(included, preference));
  return kept;
}

// Measures the value, registers the tensors that it omits, and returns the included tensors.
Result<void> ProcessValues::keep_apart(const detail::Outgoing& value,
                                       const TransportPreference& preference, RefRecords& kept,
                                       PooledVector<detail::IncludedTensor>& included) {
  const Origins origins = origins_of(preference.sharing);
  const auto measure = [&](std::size_t from_bytes) {
    detail::IncludedTensors collected;
    value.set_apart(from_bytes, origins);
    included = collected.take();
  };
  const bool small = value.size_bytes() <= inline_value_limit;
  if (value.size_bytes() < least_apart_of_small) {
    if (origins != Origins::unrecorded) measure(mobula::Writer::all_inside);
    return {};
  }
  if (!small) tensors_.open_devices();
  measure(small ? least_apart_of_small : least_apart_bytes);
  if (value.apart().empty()) return {};
  auto lock = engine_->lock();
  const auto in_place = [&](const auto& each) {
    return tensors_.can_be_seen(*std::static_pointer_cast<const detail::TensorParts>(each));
  };
  if (small && !std::ranges::all_of(value.apart(), in_place)) {
    lock.unlock();
    measure(mobula::Writer::all_inside);
    return {};
  }
  std::vector<detail::TensorParts> copies;
  if (preference.sharing == ElementSharing::snapshot) {
    lock.unlock();
    for (const auto& each : value.apart()) {
      auto copy = detail::copied(*std::static_pointer_cast<const detail::TensorParts>(each));
      if (!copy) return copy.error();
      copies.push_back(std::move(*copy));
    }
    lock.lock();
  }
  for (std::size_t i = 0; i < value.apart().size(); ++i) {
    const auto* written = static_cast<const detail::TensorParts*>(value.apart()[i].get());
    auto ref = tensors_.keep(copies.empty() ? *written : copies[i], preference);
    if (!ref) return ref.error();
    kept.push_back(std::move(*ref));
  }
  return {};
}

void ProcessValues::release_kept(const RefRecords& kept) {
  if (kept.empty()) return;
  const auto lock = engine_->lock();
  for (const RefRecord& each : kept) engine_->release(each.object);
}

// Refs to included tensors follow the refs that the value contains by index.
RefRecords ProcessValues::records_of(ProcessEngine::Lock&, const std::vector<ContainedRef>& refs,
                                     std::span<const RefRecord> tensors) {
  if (refs.empty() && tensors.empty()) return {};
  RefRecords records;
  records.reserve(refs.size());
  std::size_t next = 0;
  for (const auto& ref : refs) {
    if (ref.kind == RefKind::tensor) {
      records.push_back(tensors[next++]);
      continue;
    }
    const ObjectId object = counted_object(ref);
    MOBULA_CHECK(engine_->core().object(object) != nullptr,
                 "a ref in a value that this process does not hold");
    records.push_back(engine_->core().ref_of(object));
  }
  records.insert(records.end(), tensors.begin() + static_cast<std::ptrdiff_t>(next), tensors.end());
  return records;
}

Answer<ObjectId> ProcessValues::put(const detail::Outgoing& value, ObjectId object,
                                    const TaskContext& context,
                                    const TransportPreference& preference) {
  const auto kept = keep_tensors(value, preference);
  if (!kept) return tensor_error_of(kept.error());
  auto stored = put_written(value, object, context, *kept);
  release_kept(*kept);
  return stored;
}

Answer<ObjectId> ProcessValues::put_written(const detail::Outgoing& value, ObjectId object,
                                            const TaskContext& context,
                                            std::span<const RefRecord> tensors) {
  const auto size = value.size_bytes();
  if (size <= inline_value_limit) {
    ValueRecord record;
    record.size_bytes = static_cast<std::int64_t>(size);
    if (!value.write(record.bytes.resize(size))) {
      return make_error(ErrorKind::serialization, "the value could not be written");
    }
    auto lock = engine_->lock();
    record.contained = records_of(lock, value.contained(), tensors);
    engine_->step(PutInline{object, std::move(record)});
    return object;
  }
  auto lock = engine_->lock();
  const auto& own = engine_->core().options().process;
  auto space = engine_->reserve(lock, object, static_cast<std::int64_t>(size), own,
                                engine_->core().node(), [&] { return context.cancelled.load(); });
  if (!space && space.error().code == ErrorCode::cancelled)
    return context.cancelled.load() ? cancelled_error("put") : detail::interrupted_error("put");
  if (!space) return store_error_of(space.error());
  const auto records = records_of(lock, value.contained(), tensors);
  lock.unlock();
  const bool written = value.write(*space);
  lock.lock();
  engine_->seal(lock, object, false, records, false);
  if (written) return object;
  engine_->step(ReleaseRef{object});
  return make_error(ErrorKind::serialization, "the value could not be written");
}

void redirect(RefRecords& refs, const HandedOver& given, ProcessId owner, NodeId home) {
  for (auto& ref : refs) {
    if (std::ranges::find(given.objects, ref.object) == given.objects.end()) continue;
    ref.owner = owner;
    ref.home = home;
  }
}

Answer<ValueRecord> ProcessValues::store_result(const detail::Outgoing& value,
                                                const TransportPreference& preference,
                                                ObjectId object, ProcessId owner, NodeId home,
                                                HandedOver& given) {
  const auto kept = keep_tensors(value, preference);
  if (!kept) return tensor_error_of(kept.error());
  auto stored = store_written(value, *kept, object, owner, home, given);
  release_kept(*kept);
  return stored;
}

Answer<ValueRecord> ProcessValues::store_written(const detail::Outgoing& value,
                                                 std::span<const RefRecord> tensors,
                                                 ObjectId object, ProcessId owner, NodeId home,
                                                 HandedOver& given) {
  ValueRecord record;
  record.size_bytes = static_cast<std::int64_t>(value.size_bytes());
  const auto unwritable = [] {
    return make_error(ErrorKind::serialization, "the result could not be written");
  };
  if (value.size_bytes() <= inline_value_limit) {
    if (!value.write(record.bytes.resize(value.size_bytes()))) return unwritable();
    if (value.contained().empty() && tensors.empty()) return record;
    auto lock = engine_->lock();
    record.contained = records_of(lock, value.contained(), tensors);
    engine_->step(PinRefs{record.contained});
    return record;
  }
  auto lock = engine_->lock();
  auto space = engine_->reserve(lock, object, record.size_bytes, owner, home);
  if (!space && space.error().code != ErrorCode::already_exists)
    return store_error_of(space.error());
  record.in_store = true;
  record.location = engine_->core().node();
  record.contained = records_of(lock, value.contained(), tensors);
  if (!space && std::ranges::any_of(tensors, is_pulled_tensor)) {
    return make_error(ErrorKind::object_lost,
                      "an earlier attempt of this task has stored its value, and its tensors ended "
                      "with that attempt");
  }
  if (!space) return record;  // an earlier attempt of the same task stored it here
  lock.unlock();
  const bool written = value.write(*space);
  lock.lock();
  auto handed = engine_->hand_over(record.contained, owner, home);
  redirect(record.contained, handed, owner, home);
  std::ranges::move(handed.tasks, std::back_inserter(given.tasks));
  std::ranges::move(handed.objects, std::back_inserter(given.objects));
  std::ranges::move(handed.pinned, std::back_inserter(given.pinned));
  engine_->seal(lock, object, !written, record.contained, true);
  if (!written) return unwritable();
  return record;
}

void ProcessValues::adopt(ProcessEngine::Lock&, const RefRecords& refs) {
  for (const auto& ref : refs) {
    if (is_tensor(ref)) continue;
    if (engine_->core().object(ref.object) == nullptr) {
      engine_->step(AdoptRef{ref});
    } else {
      engine_->retain(ref.object);
    }
  }
}

// The separately stored elements of a value, which have been pulled; or the error of a missing one.
std::shared_ptr<const detail::ErrorRecord> ProcessValues::find_tensors(
    const RefRecords& contained, std::vector<detail::ApartTensor>& apart) {
  if (std::ranges::none_of(contained, is_pulled_tensor)) return nullptr;
  for (const RefRecord& each : contained) {
    apart.push_back(is_pulled_tensor(each) ? tensors_.find(each.object) : detail::ApartTensor());
    if (!is_pulled_tensor(each) || apart.back().storage) continue;
    if (const auto* why = tensors_.why_missing(each.object))
      return std::make_shared<const detail::ErrorRecord>(*why);
    return std::make_shared<const detail::ErrorRecord>(
        make_error(ErrorKind::object_lost, "the elements of a tensor are not here any more"));
  }
  return nullptr;
}

detail::StoredValue ProcessValues::stored_value(ProcessEngine::Lock& lock,
                                                const ValueRecord& value) {
  detail::StoredValue result;
  if (value.is_error) {
    result.error =
        std::make_shared<const detail::ErrorRecord>(error_of(value, value.bytes.bytes()));
    return result;
  }
  auto lease = make_pooled<ValueLease>();
  lease->engine = engine_;
  lease->payload = value.bytes;
  result.contained = contained_of(value.contained);
  if (auto missing = find_tensors(value.contained, result.apart)) {
    result.error = std::move(missing);
    return result;
  }
  lease->held = held_of(result.contained);
  adopt(lock, value.contained);
  result.bytes = lease->payload.bytes();
  result.owner = std::move(lease);
  return result;
}

detail::StoredValue ProcessValues::stored_object(ProcessEngine::Lock& lock, ObjectId object) {
  detail::StoredValue result;
  const auto fail = [&](detail::ErrorRecord error) {
    result.error = std::make_shared<const detail::ErrorRecord>(std::move(error));
    return result;
  };
  const auto* row = engine_->core().object(object);
  if (row == nullptr)
    return fail(make_error(ErrorKind::object_lost, "this process holds no such object"));
  if (row->ready && row->value->is_error && engine_->core().is_unread(object)) {
    engine_->step(ErrorRead{object});
    row = engine_->core().object(object);
  }
  if (row->ready && !(row->value->in_store && row->value->bytes.empty())) {
    return stored_value(lock, *row->value);
  }
  if (row->reading->failure) return fail(store_error_of(*row->reading->failure));
  if (!row->readable) return fail(make_error(ErrorKind::connection, engine_->why_stopped()));
  auto view = engine_->caller().view(object);
  if (!view)
    return fail(make_error(ErrorKind::object_lost, "the object's memory could not be mapped"));
  if (row->value->is_error) return fail(error_of(*row->value, view->bytes()));
  auto lease = make_pooled<ValueLease>();
  lease->engine = engine_;
  result.contained = contained_of(row->value->contained);
  if (auto missing = find_tensors(row->value->contained, result.apart)) {
    result.error = std::move(missing);
    return result;
  }
  lease->held = held_of(result.contained);
  lease->held.push_back({RefKind::object, raw(object.bits())});
  const auto contained = row->value->contained;
  adopt(lock, contained);
  engine_->retain(object);
  engine_->want(object);
  lease->viewed = object;
  result.bytes = view->bytes();
  lease->view = std::move(view);
  result.owner = std::move(lease);
  return result;
}

}  // namespace mobula::internal::client
