// Few refs are tensors: an absent record takes one byte. Tensor records come from few processes and
// repeat, so each thread caches the latest endpoints and records.
#include "base/model/task.h"
#include "protocol/codec/intern_cache.h"

namespace mobula::internal {
namespace {

// Four entries, because a miss compares with all of them.
InternCache<TensorRecord, 4>& recent_records() { return intern_cache<TensorRecord, 4>(); }

// Values are written inline, so their bytes are known after decoding.
template <class T, std::size_t Most>
void read_kept(Reader& in, InternCache<T, Most>& recent, CopyOnWrite<T>& value) {
  value = {};
  if (const auto* known = recent.take_next(in)) {
    if (in.claim(1, sizeof(T) + known->bytes.size())) value = known->value;
    return;
  }
  const std::size_t first = in.position();
  T whole;
  read(in, whole);
  const auto bytes = in.since(first);
  if (in.failed() || !in.claim(1, sizeof(T) + bytes.size())) return;
  value = std::move(whole);
  recent.keep(value, bytes);
}

}  // namespace

void write(Writer& out, const CopyOnWrite<TensorRecord>& value) {
  if (value.is_empty()) return out.nil();
  if (const auto* known = recent_records().find(value)) return out.encoded(known->bytes);
  write(out, *value);
}

void read(Reader& in, CopyOnWrite<TensorRecord>& value) {
  value = {};
  if (!in.nil()) read_kept(in, recent_records(), value);
}

void write(Writer& out, const CopyOnWrite<Endpoint>& value) {
  Bytes memory;
  out.encoded(intern_cache<Endpoint>().bytes_of(value, memory));
}

void read(Reader& in, CopyOnWrite<Endpoint>& value) {
  read_kept(in, intern_cache<Endpoint>(), value);
}

}  // namespace mobula::internal
