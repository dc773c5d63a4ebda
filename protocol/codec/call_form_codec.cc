// A form of a call is one byte string on the wire. Each thread caches the latest forms.
#include "base/model/task.h"
#include "protocol/codec/intern_cache.h"

namespace mobula::internal {

void write(Writer& out, const CopyOnWrite<CallForm>& value) {
  Bytes memory;
  out.binary(intern_cache<CallForm>().bytes_of(value, memory));
}

void read(Reader& in, CopyOnWrite<CallForm>& value) {
  const auto bytes = in.binary();
  if (in.failed() || !in.claim(1, sizeof(CallForm) + bytes.size())) return;
  auto& recent = intern_cache<CallForm>();
  if (const auto* known = recent.find(bytes)) {
    value = known->value;
    return;
  }
  auto form = decode<CallForm>(bytes);
  if (!form) return in.fail(form.error().text);
  value = std::move(*form);
  recent.keep(value, bytes);
}

}  // namespace mobula::internal
