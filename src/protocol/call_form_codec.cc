// Forms of calls on the wire: each is a run of bytes, and a thread keeps the last ones it met with theirs,
// so that a form which comes again and again is neither written nor read anew, and is the same object.
#include <algorithm>
#include <array>

#include "model/task.h"
#include "protocol/codec.h"

namespace mobula::internal {
namespace {

class RecentForms {
 public:
  const Bytes& bytes_of(const CopyOnWrite<CallForm>& form) {
    for (std::size_t i = 0; i < used_; ++i) {
      if (entries_[i].form.is_same(form)) return entries_[i].bytes;
    }
    return keep(form, encode(*form)).bytes;
  }

  Result<CopyOnWrite<CallForm>> form_of(std::span<const std::byte> bytes) {
    for (std::size_t i = 0; i < used_; ++i) {
      if (std::ranges::equal(entries_[i].bytes, bytes)) return entries_[i].form;
    }
    auto form = decode<CallForm>(bytes);
    if (!form) return form.error();
    return keep(std::move(*form), Bytes(bytes.begin(), bytes.end())).form;
  }

 private:
  struct Entry {
    CopyOnWrite<CallForm> form;
    Bytes bytes;
  };

  // In the place of the oldest.
  const Entry& keep(CopyOnWrite<CallForm> form, Bytes bytes) {
    Entry& entry = entries_[next_];
    entry = {std::move(form), std::move(bytes)};
    next_ = (next_ + 1) % entries_.size();
    used_ = std::max(used_, next_ == 0 ? entries_.size() : next_);
    return entry;
  }

  std::array<Entry, 16> entries_;
  std::size_t used_ = 0;
  std::size_t next_ = 0;
};

RecentForms& recent_forms() {
  thread_local RecentForms forms;
  return forms;
}

}  // namespace

void write(Writer& out, const CopyOnWrite<CallForm>& value) { out.binary(recent_forms().bytes_of(value)); }

void read(Reader& in, CopyOnWrite<CallForm>& value) {
  const auto bytes = in.binary();
  if (in.failed() || !in.claim(1, sizeof(CallForm) + bytes.size())) return;
  auto form = recent_forms().form_of(bytes);
  if (!form) return in.fail(form.error().text);
  value = std::move(*form);
}

}  // namespace mobula::internal
