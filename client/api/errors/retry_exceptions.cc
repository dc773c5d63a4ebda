// Types of exceptions that are retried, by name.
#include <mobula/retry_exceptions.h>

#include <algorithm>
#include <map>
#include <typeinfo>

#include "base/mutex.h"
#include "client/api/readable_type.h"

namespace mobula::detail {

namespace {

struct RetriedTypes {
  internal::Mutex mutex;
  std::map<std::string, ExceptionTest, std::less<>> tests MOBULA_GUARDED_BY(mutex);
};

// Registration precedes main, so the table is made on first use.
RetriedTypes& known() {
  static auto* const table = new RetriedTypes;
  return *table;
}

bool matches(const std::exception& thrown, const std::string& type) {
  ExceptionTest test = nullptr;
  {
    const internal::MutexLock lock(known().mutex);
    const auto at = known().tests.find(type);
    if (at != known().tests.end()) test = at->second;
  }
  return test != nullptr ? test(thrown) : readable_type(typeid(thrown)) == type;
}

}  // namespace

bool add_retried_type(std::string_view type, ExceptionTest test) {
  const internal::MutexLock lock(known().mutex);
  known().tests.emplace(type, test);
  return true;
}

bool has_type(std::exception_ptr thrown, const std::vector<std::string>& types) {
  if (!thrown) return false;
  try {
    std::rethrow_exception(std::move(thrown));
  } catch (const std::exception& error) {
    return std::ranges::any_of(types,
                               [&](const std::string& type) { return matches(error, type); });
  } catch (...) {
    return false;
  }
}

}  // namespace mobula::detail
