// Of the many refs that travel few are tensors: those take one byte for what they are not. Those that are come
// from few processes, and go to and fro: a thread keeps the last ends and the last records it met.
#include "model/task.h"
#include "protocol/recent_values.h"

namespace mobula::internal {
namespace {

// Few: what is not among them has been looked for in vain.
RecentValues<TensorRecord, 4>& recent_records() { return recent_values<TensorRecord, 4>(); }

// What is written in place, so that its bytes are known when it has been read.
template <class T, std::size_t Most>
void read_kept(Reader& in, RecentValues<T, Most>& recent, CopyOnWrite<T>& value) {
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
  out.encoded(recent_values<Endpoint>().bytes_of(value, memory));
}

void read(Reader& in, CopyOnWrite<Endpoint>& value) { read_kept(in, recent_values<Endpoint>(), value); }

}  // namespace mobula::internal
