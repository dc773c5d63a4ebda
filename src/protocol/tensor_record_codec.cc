// Of the many refs that travel few are tensors: those take one byte for what they are not. Those that are come
// from few processes: a thread keeps the last ends it met.
#include "model/task.h"
#include "protocol/recent_values.h"

namespace mobula::internal {

void write(Writer& out, const CopyOnWrite<TensorRecord>& value) {
  if (value.is_empty()) return out.nil();
  write(out, *value);
}

void read(Reader& in, CopyOnWrite<TensorRecord>& value) {
  value = {};
  if (in.nil() || !in.claim(1, sizeof(TensorRecord))) return;
  TensorRecord record;
  read(in, record);
  value = std::move(record);
}

void write(Writer& out, const CopyOnWrite<Endpoint>& value) {
  Bytes memory;
  out.encoded(recent_values<Endpoint>().bytes_of(value, memory));
}

void read(Reader& in, CopyOnWrite<Endpoint>& value) {
  const auto bytes = in.skip();
  read_recent(in, bytes, value);
}

}  // namespace mobula::internal
