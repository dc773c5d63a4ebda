#include "client/api/conversions.h"

#include "base/containers/table.h"
#include "base/mutex.h"

namespace mobula::internal::client {
namespace {

struct Row {
  const detail::TypeDescription* type = nullptr;
  Conversion conversion = nullptr;
};

// Constructors of static objects add rows, so it is constructed at its first use.
struct Rows {
  Mutex mutex;
  Table<std::uint64_t, Row> by_fingerprint MOBULA_GUARDED_BY(mutex);
};

Rows& rows() {
  static Rows all;
  return all;
}

}  // namespace

void add_conversion(const detail::TypeDescription& type, Conversion conversion) {
  Rows& all = rows();
  const MutexLock lock(all.mutex);
  all.by_fingerprint[type.fingerprint] = {&type, conversion};
}

std::shared_ptr<const detail::StoredValue> convert_stored(const detail::StoredValue& stored,
                                                          std::uint64_t fingerprint) {
  Row row;
  {
    Rows& all = rows();
    const MutexLock lock(all.mutex);
    const Row* found = all.by_fingerprint.find(fingerprint);
    if (found == nullptr) return nullptr;
    row = *found;
  }
  return row.conversion(stored, *row.type);
}

}  // namespace mobula::internal::client
